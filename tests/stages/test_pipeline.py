"""The whole job on the toy environment: stages run, a killed run ends like one that was not, evaluation only reads."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from stage_parts import overrides

from mh_train.cli import main
from mh_train.config import compose
from mh_train.run.metrics import read_metrics
from mh_train.stages import eval as evaluation


def test_every_stage_leaves_what_it_promises(trained):
    names = ("config.yaml", "env.json", "metrics.jsonl", "sft/model", "model/README.md", "eval/eval.json")
    assert [name for name in names if not (trained / name).exists()] == []
    assert len(list((trained / "trajectories").glob("update-*.jsonl"))) == 4
    assert [row["update"] for row in read_metrics(trained / "metrics.jsonl")] == [1, 2, 3, 4]


def test_training_moved_the_policy_and_filled_the_bank(trained):
    rows = read_metrics(trained / "metrics.jsonl")
    assert rows[-1]["memory/total"] > 0
    assert any(row["learn/grad_norm"] > 0 for row in rows)
    assert (trained / "model" / "model.safetensors").read_bytes() != (
        trained / "sft" / "model" / "model.safetensors"
    ).read_bytes()


def test_sampler_and_trainer_agree_on_log_probs(trained):
    assert all(abs(row["learn/mismatch_kl"]) < 1e-4 for row in read_metrics(trained / "metrics.jsonl"))


def test_a_second_evaluation_writes_the_same_file_and_leaves_the_bank_alone(trained):
    first = (trained / "eval" / "eval.json").read_bytes()
    bank = evaluation.folder_digest(trained / "bank")
    shutil.rmtree(trained / "eval")
    evaluation.main(compose(overrides(trained.parent)))
    assert (trained / "eval" / "eval.json").read_bytes() == first
    assert evaluation.folder_digest(trained / "bank") == bank


def outcome(run: Path) -> dict[str, object]:
    """What must not depend on interruptions: metrics without times, weights, bank."""
    metrics = [
        {name: value for name, value in row.items() if "time/" not in name and "seconds" not in name}
        for row in read_metrics(run / "metrics.jsonl")
    ]
    journal = (run / "bank" / "journal.jsonl").read_text()
    return {"metrics": metrics, "weights": (run / "model" / "model.safetensors").read_bytes(), "bank": journal}


def start(root: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mh_train.cli", "grpo", *overrides(root, "learn.checkpoint.every=1", *more)]
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)


def kill_when(process: subprocess.Popen[bytes], reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not reached():
        assert process.poll() is None, "the run ended before the place to kill it"
        assert time.monotonic() < deadline, "the run never reached the place to kill it"
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_run_killed_at_three_places_ends_like_one_that_was_not(trained, tmp_path):
    killed = tmp_path / "toy"
    shutil.copytree(trained / "sft", killed / "sft")
    lines = lambda: len(read_metrics(killed / "metrics.jsonl"))  # noqa: E731
    kill_when(start(tmp_path), lambda: (killed / "trajectories" / "update-00001.jsonl").exists())
    kill_when(start(tmp_path), lambda: lines() == 2)
    kill_when(start(tmp_path), lambda: (killed / "checkpoints" / ".update-000003.tmp").exists())
    assert start(tmp_path).wait(120) == 0
    assert outcome(killed) == outcome(trained)


def test_the_last_word_of_a_failed_stage_is_a_sentence(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mh_train.cli", "grpo", *overrides(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "mh-train sft" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_keeps_finished_updates(trained, tmp_path):
    run = tmp_path / "toy"
    shutil.copytree(trained / "sft", run / "sft")
    process = start(tmp_path, "learn.updates=1000")
    while not read_metrics(run / "metrics.jsonl"):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert json.loads((run / "metrics.jsonl").read_text().splitlines()[0])["update"] == 1


def test_the_bank_of_a_run_can_be_read_checked_and_carried_elsewhere(trained, tmp_path, capsys):
    copy = tmp_path / "toy"
    shutil.copytree(trained, copy)
    assert main(["bank", "verify", str(copy)]) == 0
    assert "nothing wrong" in capsys.readouterr().out
    assert main(["bank", "export", str(copy), str(tmp_path / "bank.jsonl")]) == 0
    shutil.rmtree(copy / "bank")
    assert main(["bank", "import", str(copy), str(tmp_path / "bank.jsonl"), "--yes", "--copies"]) == 0
    capsys.readouterr()
    assert main(["bank", "list", str(copy)]) == 0
    assert "memories in" in capsys.readouterr().out
    assert main(["bank", "show", str(copy), "nosuch"]) == 1
    assert "begin with" in capsys.readouterr().err


def test_an_environment_is_held_to_its_contract(capsys):
    assert main(["env", "check", "toy"]) == 0
    assert main(["env", "check", "nosuch"]) == 1
    assert "known are" in capsys.readouterr().err
