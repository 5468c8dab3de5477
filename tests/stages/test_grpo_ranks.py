"""Training on two processes: the same run as on one, and the end of one process is the end of all."""

import json
import os
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from talker import SETTINGS, make_model
from two_ranks import on_ranks

from mh_train.config import RunConfig, compose
from mh_train.learn.ranks import RankLost
from mh_train.run.metrics import read_metrics
from mh_train.stages import grpo

SMALL = [
    "rollout.tasks=3",
    "rollout.group=3",
    "learn.updates=2",
    "learn.minibatch_turns=16",
    "learn.checkpoint.every=1",
]


def toy(root: Path, *more: str) -> RunConfig:
    config = compose(["experiment=toy", f"root={root}", *SMALL, *SETTINGS, *more])
    if not (root / "toy" / "sft" / "model").exists():
        make_model(root / "toy" / "sft" / "model")
    return config


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """The run folder of one process."""
    root = tmp_path_factory.mktemp("alone")
    config = toy(root)
    assert on_ranks(lambda rank: grpo.main(config), 1) == [0]
    return root / "toy"


def check_equal(run: Path, other: Path) -> None:
    """Bank and episodes are the same to the byte; what the learner computes, within the rounding of summation order."""
    assert (run / "bank" / "journal.jsonl").read_bytes() == (other / "bank" / "journal.jsonl").read_bytes()
    for path in sorted((run / "trajectories").iterdir()):
        pairs = zip(path.read_text().splitlines(), (other / "trajectories" / path.name).open(), strict=True)
        assert all({**json.loads(a), "seconds": 0} == {**json.loads(b), "seconds": 0} for a, b in pairs)
    rows = zip(read_metrics(run / "metrics.jsonl"), read_metrics(other / "metrics.jsonl"), strict=True)
    for mine, theirs in rows:
        assert mine.keys() == theirs.keys()
        steady = [name for name in mine if not name.startswith("time/") and "seconds" not in name]
        exact = [name for name in steady if not name.startswith("learn/")]
        assert {n: mine[n] for n in exact} == {n: theirs[n] for n in exact}
        assert {n: mine[n] for n in steady} == pytest.approx({n: theirs[n] for n in steady}, rel=1e-4, abs=1e-6)
    weights, others = (load_file(folder / "model" / "model.safetensors") for folder in (run, other))
    torch.testing.assert_close(weights, others, rtol=1e-4, atol=1e-6)


def test_two_processes_make_the_run_of_one(alone, tmp_path):
    config = toy(tmp_path)
    assert on_ranks(lambda rank: grpo.main(config)) == [0, 0]
    assert read_metrics(alone / "metrics.jsonl")[-1]["memory/total"] > 0
    assert read_metrics(alone / "metrics.jsonl")[-1]["memory/retrievals"] > 0
    check_equal(tmp_path / "toy", alone)


def test_a_process_that_dies_ends_the_run_everywhere_and_both_resume(alone, tmp_path):
    config = toy(tmp_path)

    def die_in_the_second_update(rank: int) -> None:
        update = grpo.one_update

        async def mortal(run, pool):
            if rank == 1 and run.update == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return await update(run, pool)

        grpo.one_update = mortal
        with pytest.raises(RankLost, match="the same command continues from the last checkpoint"):
            grpo.main(config)

    assert on_ranks(die_in_the_second_update) == [0, -signal.SIGKILL]
    assert [path.name for path in (tmp_path / "toy" / "checkpoints").glob("update-*")] == ["update-000001"]
    assert on_ranks(lambda rank: grpo.main(config)) == [0, 0]
    check_equal(tmp_path / "toy", alone)


def test_two_processes_ahead_of_the_learner_make_the_bank_of_one(tmp_path):
    runs = []
    for count in (1, 2):
        config = toy(tmp_path / str(count), "rollout.max_staleness=1", "learn.updates=3")
        assert on_ranks(lambda rank, config=config: grpo.main(config), count) == [0] * count
        runs.append(tmp_path / str(count) / "toy")
    one, two = runs
    assert (one / "bank" / "journal.jsonl").read_bytes() == (two / "bank" / "journal.jsonl").read_bytes()
    assert [row["async/staleness"] for row in read_metrics(two / "metrics.jsonl")] == [0, 1, 1]
    weights, others = (load_file(run / "model" / "model.safetensors") for run in runs)
    torch.testing.assert_close(weights, others, rtol=1e-4, atol=1e-6)
