"""Evaluation during training: it changes nothing, survives a kill, and the best checkpoint is kept and used."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from stage_parts import overrides

from mh_train.config import ConfigError, compose
from mh_train.run.metrics import read_metrics
from mh_train.stages import eval as evaluation
from mh_train.stages.selection import better, note_export

BEST = ["evaluate.every=1", "evaluate.every_limit=6", "learn.checkpoint.select=best", "learn.checkpoint.keep_last=1"]


@pytest.fixture(scope="module")
def selected(trained, tmp_path_factory) -> Path:
    """The run of `trained` with an evaluation after every update, killed once on the way."""
    root = tmp_path_factory.mktemp("selected")
    run = root / "toy"
    shutil.copytree(trained / "sft", run / "sft")
    command = [sys.executable, "-m", "mh_train.cli", "grpo", *overrides(root, *BEST)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    killed = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while not (run / "checkpoints" / "update-000002").exists():
        assert killed.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return run


def test_training_goes_on_bit_for_bit_as_without(trained, selected):
    def training(run: Path) -> list[dict[str, float]]:
        rows = read_metrics(run / "metrics.jsonl")
        return [
            {k: v for k, v in row.items() if k[:5] not in ("eval/", "time/") and "seconds" not in k} for row in rows
        ]

    assert training(selected) == training(trained)
    journals = [(run / "bank" / "journal.jsonl").read_bytes() for run in (selected, trained)]
    assert journals[0] == journals[1]


def test_the_best_checkpoint_is_kept_exported_and_evaluated(selected):
    successes = {row["update"]: row["eval/success"] for row in read_metrics(selected / "metrics.jsonl")}
    best = max(successes, key=lambda update: (successes[update], -update))
    kept = {int(path.name.removeprefix("update-")) for path in (selected / "checkpoints").glob("update-*")}
    assert kept == {best, 4}
    weights = torch.load(selected / "checkpoints" / f"update-{best:06d}" / "learner.pt", weights_only=True)["weights"]
    exported = load_file(selected / "model" / "model.safetensors")
    assert all(torch.equal(exported[name], weights[name]) for name in exported)
    config = compose(overrides(selected.parent, *BEST, "evaluate.modes=[memory]"))
    assert evaluation.bank_snapshot(config, evaluation.RunFolder(selected)) == (
        selected / "checkpoints" / f"update-{best:06d}" / "bank"
    )


def test_an_export_of_another_checkpoint_is_not_evaluated_with_this_ones_bank(trained, tmp_path):
    run = tmp_path / "toy"
    shutil.copytree(trained, run)
    note_export(run / "model", 2)
    with pytest.raises(ConfigError, match=r"policy after update 2.*takes the one after update 4"):
        evaluation.main(compose(overrides(tmp_path)))


def test_best_needs_evaluations(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "toy")
    with pytest.raises(ConfigError, match=r"evaluate\.every"):
        evaluation.main(compose(overrides(tmp_path, *BEST)))


def test_of_equals_the_earlier_stays():
    best = better({}, 1, 0.5)
    assert better(best, 2, 0.5) == {"update": 1, "success": 0.5}
    assert better(best, 2, 0.6) == {"update": 2, "success": 0.6}
    assert json.loads(json.dumps(best)) == best
