"""Pushing needs a model, a network and a login; each that lacks is a sentence, and the model stays where it is."""

import pytest

from mh_train.config import ConfigError
from mh_train.stages.hub import push


def test_without_a_model_there_is_nothing_to_push(tmp_path):
    with pytest.raises(ConfigError, match="run `mh-train grpo` first"):
        push(tmp_path, "owner/name")


def test_offline_the_model_stays_and_the_command_for_later_is_told(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match=f"hf upload owner/name {tmp_path}"):
        push(tmp_path, "owner/name")
    assert (tmp_path / "config.json").is_file()
