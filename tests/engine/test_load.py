"""Opening models: what works, and one sentence for what does not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from mh_train.config.schema import ModelConfig
from mh_train.engine.codec import HFCodec, ModelError
from mh_train.engine.load import end_ids, load_model, load_tokenizer


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "model"))


def test_opens_a_folder_in_the_dtype_of_the_config(folder: Path) -> None:
    model, tokenizer = load_model(ModelConfig(path=str(folder), dtype="bfloat16", gradient_checkpointing=True))
    assert model.dtype == torch.bfloat16
    assert model.is_gradient_checkpointing and not model.training
    assert HFCodec(tokenizer).end_ids() == end_ids(model)
    elsewhere, _ = load_model(ModelConfig(path="tiny", dtype="float32"), folder)
    assert elsewhere.dtype == torch.float32


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"There is no model folder .*nowhere; correct model\.path"):
        load_model(ModelConfig(path=str(tmp_path / "nowhere")))


def test_the_tiny_model_before_its_cold_start() -> None:
    with pytest.raises(ModelError, match="run `mh-train sft` first"):
        load_model(ModelConfig(path="tiny"))


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        load_model(ModelConfig(path=str(tmp_path)))


def test_a_model_without_tokenizer(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(ModelError, match=r"has no tokenizer; copy tokenizer\.json"):
        load_model(ModelConfig(path=str(folder)))


def test_a_tokenizer_without_chat_template(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ModelError, match="has no chat template"):
        load_tokenizer(folder)


def test_a_tokenizer_without_end_token(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    del settings["eos_token"]
    path.write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="names no end token"):
        load_tokenizer(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_torn_file(folder: Path, name: str) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ModelError, match="the folder is incomplete, copy it again"):
        load_model(ModelConfig(path=str(folder)))


def test_a_hub_id_without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE forbids downloading"):
        load_model(ModelConfig(path="nobody/has-this-model"))
