"""One small training on the toy environment, shared by the tests of the stages; they copy it where they change it."""

import os
from pathlib import Path

import pytest
from filelock import FileLock
from stage_parts import overrides

from mh_train.config import compose
from mh_train.stages import eval as evaluation
from mh_train.stages import grpo, sft


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A run folder after sft, grpo and eval, made once by whichever of the parallel test processes asks first."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trained"
    with FileLock(f"{root}.lock"):
        if not (root / "toy" / "report.html").is_file():  # the last thing that eval writes
            config = compose(overrides(root))
            sft.main(config)
            grpo.main(config)
            evaluation.main(config)
    return root / "toy"
