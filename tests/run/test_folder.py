"""A run folder records what ran, and refuses to be something else."""

import json
import os
import subprocess
import sys

import pytest

from mh_train.config import ConfigError, compose
from mh_train.files import write_atomic
from mh_train.run.folder import RunFolder
from mh_train.run.reuse import alone


def toy(tmp_path):
    return compose(["env=toy", "model=tiny", "learn.minibatch_turns=8", f"root={tmp_path}", "name=a/b"])


def test_config_and_versions_are_written(tmp_path):
    folder = RunFolder.open(toy(tmp_path))
    again, config = RunFolder.existing(folder.path)
    assert config == toy(tmp_path)
    recorded = json.loads((again.path / "env.json").read_text())
    assert "torch" in recorded["versions"]


def test_another_folder_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="not a run folder"):
        RunFolder.existing(tmp_path)


def test_other_settings_than_before_are_told(tmp_path, capsys):
    RunFolder.open(toy(tmp_path))
    capsys.readouterr()
    changed = toy(tmp_path)
    changed.learn.lr, changed.learn.updates, changed.evaluate.limit = 0.5, 9, 3
    RunFolder.open(changed)
    told = capsys.readouterr().out
    assert "learn.lr 1e-06 -> 0.5." in told and "updates" not in told and "limit" not in told
    RunFolder.open(changed)
    assert capsys.readouterr().out == ""


def test_one_process_at_a_time_works_in_a_folder(tmp_path):
    config = toy(tmp_path)
    code = (
        "from mh_train.config import ConfigError, load; from mh_train.run.reuse import alone; import sys\n"
        "try:\n    with alone(load(sys.argv[1])): print('mine')\n"
        "except ConfigError as error: print(error)"
    )
    other = [sys.executable, "-c", code, str(RunFolder.open(config).config_file)]
    with alone(config):
        assert "Another process works in" in subprocess.run(other, check=True, capture_output=True, text=True).stdout
    assert subprocess.run(other, check=True, capture_output=True, text=True).stdout == "mine\n"


def test_a_root_that_is_a_file_is_one_sentence(tmp_path):
    (tmp_path / "root").write_text("")
    config = toy(tmp_path / "root")
    with pytest.raises(ConfigError, match="cannot be written"):
        RunFolder.open(config)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    target = tmp_path / "file"
    write_atomic(target, "old")

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        write_atomic(target, "new")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
