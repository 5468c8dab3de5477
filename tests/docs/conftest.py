"""One short toy run that the pages' commands and the metrics reference are held against."""

from pathlib import Path

import pytest

from mh_train.cli import main

SHORT = (
    "sft.trajectories=2",
    "sft.summaries=1",
    "sft.epochs=1",
    "learn.updates=1",
    "evaluate.limit=1",
    "evaluate.modes=[memory]",
)


@pytest.fixture(scope="session")
def toy_runs(tmp_path_factory) -> Path:
    """The folder of runs; `toy` in it has been through every stage."""
    root = tmp_path_factory.mktemp("documented") / "runs"
    assert main(["run", "experiment=toy", f"root={root}", *SHORT]) == 0
    return root
