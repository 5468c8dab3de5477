"""One small training on the toy environment, shared by the tests of the stages; they copy it where they change it."""

from pathlib import Path

import pytest
from stage_parts import overrides

from mh_train.config import compose
from mh_train.stages import eval as evaluation
from mh_train.stages import grpo, sft


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A run folder after sft, grpo and eval."""
    root = tmp_path_factory.mktemp("runs")
    config = compose(overrides(root))
    sft.main(config)
    grpo.main(config)
    evaluation.main(config)
    return root / "toy"
