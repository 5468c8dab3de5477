"""Metrics are on disk once per update, whatever was killed in between."""

import json

from mh_train.config import compose
from mh_train.run.folder import RunFolder
from mh_train.run.metrics import Metrics, read_metrics


def open_run(tmp_path, *overrides):
    config = compose(["env=toy", "model=tiny", "learn.minibatch_turns=8", f"root={tmp_path}", *overrides])
    return RunFolder.open(config), config


def test_lines_are_rewound_to_the_checkpoint(tmp_path):
    folder, config = open_run(tmp_path)
    metrics = Metrics(folder, config)
    for update in (1, 2, 3):
        metrics.log(update, {"reward/mean": update / 2})
    metrics.rewind(2)
    metrics.log(3, {"reward/mean": 9.0})
    assert [row["reward/mean"] for row in read_metrics(folder.metrics)] == [0.5, 1.0, 9.0]


def test_a_torn_last_line_is_left_out(tmp_path, caplog):
    folder, config = open_run(tmp_path)
    Metrics(folder, config).log(1, {"a/b": 1})
    with open(folder.metrics, "a") as file:
        file.write('{"update": 2, "a/')
    assert [row["update"] for row in read_metrics(folder.metrics)] == [1]
    assert "line 2" in caplog.text


def test_a_run_keeps_its_tracker_id_and_shares_it_with_no_other(tmp_path):
    folder, config = open_run(tmp_path)
    other, _ = open_run(tmp_path / "elsewhere")
    assert Metrics(folder, config).run_id == Metrics(folder, config).run_id != Metrics(other, config).run_id
    assert Metrics(folder, config, "of-the-checkpoint").run_id == "of-the-checkpoint"
    assert Metrics(folder, config).run_id.isalnum()


def test_a_value_that_is_not_finite_is_null(tmp_path):
    folder, config = open_run(tmp_path)
    Metrics(folder, config).log(1, {"learn/kl": float("nan")})
    assert json.loads(folder.metrics.read_text())["learn/kl"] is None


def test_tensorboard_and_offline_wandb_get_the_same_numbers(tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    folder, config = open_run(tmp_path, "track.tensorboard=true", "track.wandb=true")
    metrics = Metrics(folder, config)
    metrics.log(1, {"reward/mean": 0.25})
    metrics.close()
    assert list((folder.path / "tensorboard").glob("events*"))
    assert list((folder.path / "wandb").glob("offline-run-*"))
