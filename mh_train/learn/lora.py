"""LoRA through peft: only the adapter is trained, and the policy with its adapter off is the reference (SPEC 3).

Why: no second copy of the model is needed for the KL, and a checkpoint holds megabytes. Invariant: right after
`add_lora` the policy equals the base model, since the adapter's B starts at zero.
"""

from __future__ import annotations

from typing import Any

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel, get_peft_model

from mh_train.config.schema import LoraConfig


def add_lora(model: Any, config: LoraConfig, seed: int = 0) -> Any:
    """The model wrapped by a fresh adapter (float32 weights, drawn from `seed`), or unchanged when LoRA is off.

    Raises `ValueError` (from peft) when `target_modules` names nothing in the model.
    """
    if not config.enabled:
        return model
    adapter = PeftLoraConfig(
        r=config.r,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=list(config.target_modules),
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return get_peft_model(model, adapter)


def has_lora(model: Any) -> bool:
    """Whether the policy is an adapter over a frozen base; `model.disable_adapter()` is then the reference."""
    return isinstance(model, PeftModel)


def base_model(model: Any) -> Any:
    """The transformers model inside a peft wrapper, or the model itself."""
    return model.get_base_model() if has_lora(model) else model
