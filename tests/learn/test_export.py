"""An exported folder is an ordinary Hugging Face model that says what it is."""

import json
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from policies import VOCAB, tiny_model
from tokenizers import Tokenizer, models
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedTokenizerFast

from mh_train.config.schema import LoraConfig
from mh_train.learn.export import ModelCard, export_model, render_card
from mh_train.learn.lora import add_lora

CARD = ModelCard(
    "toy",
    "tiny",
    "toy tasks",
    7,
    [("valid_seen", {"success": 0.5, "steps": 4}), ("none", {"success": 1})],
    {"torch": "2"},
)
IDS = torch.tensor([[3, 4, 5, 6]])


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCAB)}, unk_token="w0"))
    return PreTrainedTokenizerFast(tokenizer_object=words, eos_token="w1", pad_token="w2")


def test_the_folder_loads_like_any_model_and_gives_the_same_logits(tmp_path: Path, tokenizer):
    model = tiny_model()
    folder = export_model(model, tokenizer, tmp_path / "model", CARD)
    assert torch.equal(AutoModelForCausalLM.from_pretrained(folder)(IDS).logits, model(IDS).logits)
    assert AutoTokenizer.from_pretrained(folder).eos_token_id == 1
    generation = GenerationConfig.from_pretrained(folder)
    assert (generation.eos_token_id, generation.temperature, generation.do_sample) == (1, 0.4, True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_dtype_is_written_once_and_the_model_keeps_its_own(tmp_path: Path, tokenizer):
    model = tiny_model()
    folder = export_model(model, tokenizer, tmp_path / "model", CARD, dtype=torch.bfloat16)
    assert json.loads((folder / "config.json").read_text())["dtype"] == "bfloat16" and model.dtype is torch.float32
    assert AutoModelForCausalLM.from_pretrained(folder).dtype is torch.bfloat16
    parameters = sum(p.numel() for p in model.parameters())
    assert (folder / "model.safetensors").stat().st_size < 2 * parameters + 10_000, "tied weights are stored once"


def test_lora_is_merged_or_kept_as_an_adapter(tmp_path: Path, tokenizer):
    model = add_lora(tiny_model(), LoraConfig(enabled=True, r=4))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(0))
    logits = model(IDS).logits
    merged = AutoModelForCausalLM.from_pretrained(export_model(model, tokenizer, tmp_path / "merged", CARD))
    torch.testing.assert_close(merged(IDS).logits, logits, rtol=1e-4, atol=1e-3)
    folder = export_model(model, tokenizer, tmp_path / "adapter", CARD, merge_lora=False)
    assert torch.equal(PeftModel.from_pretrained(tiny_model(), folder)(IDS).logits, logits)
    assert torch.equal(model(IDS).logits, logits)


def test_exporting_again_replaces_the_folder(tmp_path: Path, tokenizer):
    for seed in (0, 1):
        folder = export_model(tiny_model(seed=seed), tokenizer, tmp_path / "model", CARD)
        (folder / "stale").write_text("")
    export_model(tiny_model(seed=2), tokenizer, tmp_path / "model", CARD)
    assert not (folder / "stale").exists() and [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_card_names_base_data_results_versions_and_both_papers():
    card = render_card(CARD)
    assert card.startswith("---\nbase_model: tiny\n")
    for line in ("|  | success | steps |", "| valid_seen | 0.500 | 4.000 |", "| none | 1.000 |  |", "torch 2"):
        assert line in card
    assert "2607.28272" in card and "2608.21867" in card and "7 updates on toy tasks" in card
    assert "Not evaluated." in render_card(ModelCard("x", "y", "z"))
