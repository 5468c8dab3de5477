"""What tests of several rooms share: a browser, where there is one."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")  # its event loop may not outlive the module: others run their own
def chromium() -> Iterator[object]:
    """Headless Chromium; the tests that need it say so and are skipped where it is not installed."""
    browser = pytest.importorskip("browser", reason="playwright is not installed: pip install -e '.[dev]'")
    try:
        with browser.chromium() as opened:
            yield opened
    except browser.NoBrowser as error:
        pytest.skip(str(error))
