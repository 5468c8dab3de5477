"""A trained policy as an ordinary Hugging Face folder: weights, tokenizer, generation config, model card.

Why: every engine, and everybody else's software, can load it. Invariant: the folder under its final name is complete.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor
from transformers import GenerationConfig, PreTrainedTokenizerBase

from mh_train.files import write_atomic, write_json
from mh_train.learn.lora import base_model, has_lora

CITATIONS = """```bibtex
@misc{wu2026memharness,
  title         = {MemHarness: Memory Is Reconstructed, Not Replayed},
  author        = {Rong Wu and Daocheng Fu and Licheng Wen and Xuemeng Yang and others},
  year          = {2026},
  eprint        = {2607.28272},
  archivePrefix = {arXiv}
}
@misc{wang2026memguard,
  title         = {MemGuard: Persisting Verifier Signals for LLM-Agent Memory Governance},
  author        = {Haoyu Wang and Guangyuan Dong and He Liang and Zijing Zhang and others},
  year          = {2026},
  eprint        = {2608.21867},
  archivePrefix = {arXiv}
}
```"""


@dataclass(frozen=True)
class ModelCard:
    """What a reader of the folder must know. `results` are the rows of one table: (name, metric -> value)."""

    name: str
    base_model: str
    data: str
    update: int = 0
    results: Sequence[tuple[str, Mapping[str, float]]] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


def export_model(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    folder: str | os.PathLike[str],
    card: ModelCard,
    dtype: torch.dtype | None = None,
    temperature: float = 0.4,
    merge_lora: bool = True,
    weights: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write (or replace) the folder; weights as `dtype`, or as they are. `model` is left unchanged.

    A LoRA policy is merged into its base, or with `merge_lora=False` saved as an adapter that peft loads onto the base.
    `weights` (name -> whole tensor) replace those of a model that is divided over processes.
    Samplers that read the generation config draw as the evaluation did: `temperature`, nothing truncated.
    """
    target = Path(folder)
    temporary, old = target.with_name(f".{target.name}.tmp"), target.with_name(f".{target.name}.old")
    for leftover in (temporary, old):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary.mkdir(parents=True)
    generation = _generation_config(base_model(model).generation_config, tokenizer, temperature)
    if has_lora(model) and merge_lora:
        model = copy.deepcopy(model).merge_and_unload()
    _save_weights(model, temporary, dtype, weights)
    generation.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    write_atomic(temporary / "README.md", render_card(card))
    if target.exists():
        os.rename(target, old)
    os.rename(temporary, target)
    shutil.rmtree(old, ignore_errors=True)
    return target


def render_card(card: ModelCard) -> str:
    """The README.md of a model folder: YAML head for the hub, provenance, results, use, citations."""
    head = {"base_model": card.base_model, "library_name": "transformers", "license": "apache-2.0"}
    tags = ["reinforcement-learning", "llm-agent", "memory", "memharness", "mh_train"]
    yaml_head = yaml.safe_dump({**head, "pipeline_tag": "text-generation", "tags": tags}, sort_keys=False)
    versions = ", ".join(f"{name} {version}" for name, version in card.versions.items()) or "unknown"
    return f"""---
{yaml_head}---

# {card.name}

A policy that retrieves from a memory bank, reconstructs what it finds for the present state, and acts. Trained by
`mh_train` from `{card.base_model}` for {card.update} updates on {card.data}.

## Results

{_table(card.results)}

## Use

It expects the prompts of `mh_train.agent`; evaluate it with `mh-train eval model.path=<this folder>`.

Made with {versions}.

## Citation

{CITATIONS}
"""


def _table(results: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    if not results:
        return "Not evaluated."
    columns = list(dict.fromkeys(metric for _, values in results for metric in values))
    lines = [["", *columns], ["---"] * (len(columns) + 1)]
    lines += [[name, *(f"{values[c]:.3f}" if c in values else "" for c in columns)] for name, values in results]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _save_weights(
    model: Any, folder: Path, dtype: torch.dtype | None, weights: Mapping[str, Tensor] | None = None
) -> None:
    converted: dict[int, Tensor] = {}  # tied weights stay one tensor
    state = {
        name: converted.setdefault(value.data_ptr(), value.to(dtype or value.dtype))
        for name, value in (model.state_dict() if weights is None else weights).items()
    }
    if has_lora(model):
        model.save_pretrained(folder)
        return
    model.save_pretrained(folder, state_dict=state)
    if dtype is not None:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        write_json(folder / "config.json", {**config, "dtype": str(dtype).removeprefix("torch.")})


def _generation_config(
    own: GenerationConfig, tokenizer: PreTrainedTokenizerBase, temperature: float
) -> GenerationConfig:
    """The model's end tokens (the tokenizer's where it names none), sampled as evaluated."""
    return GenerationConfig(
        eos_token_id=tokenizer.eos_token_id if own.eos_token_id is None else own.eos_token_id,
        pad_token_id=tokenizer.pad_token_id if own.pad_token_id is None else own.pad_token_id,
        do_sample=True,
        temperature=temperature,
        top_p=1.0,
        top_k=0,
    )
