"""A run folder records what ran, and refuses to be something else."""

import json
import os

import pytest

from mh_train.config import ConfigError, compose
from mh_train.files import write_atomic
from mh_train.run.folder import RunFolder


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
