"""One cache folder for all tests of the session: the grammar is parsed once."""

import pytest


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("alfworld_cache"))
