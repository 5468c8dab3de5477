"""Which precision is trained and which is computed.

Why: AdamW steps of 1e-6 round to nothing in bfloat16 weights. Invariant: what is trained is float32 or better; what was
loaded in bfloat16 is computed in bfloat16.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from mh_train.learn.errors import LearnError


def promote_trained(model: nn.Module) -> torch.dtype:
    """Make trained bfloat16 parameters float32, in place; returns the dtype the model was loaded in.

    Raises `LearnError` for float16, whose gradients overflow without loss scaling, and when nothing is trainable.
    """
    loaded = next(model.parameters()).dtype
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if loaded is torch.float16:
        raise LearnError("model.dtype=float16 overflows in training; set model.dtype=bfloat16 or float32.")
    if not trained:
        raise LearnError("The model has no trainable parameter; unfreeze it or set model.lora.enabled=true.")
    for parameter in trained:
        parameter.data = parameter.data.to(torch.promote_types(parameter.dtype, torch.float32))
    return loaded


def demote(model: nn.Module, dtype: torch.dtype) -> None:
    """Round all parameters to the dtype they were loaded in; buffers (rotary frequencies) keep theirs."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)


def computing_in(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[Any]:
    """Autocast to bfloat16 for models loaded so; float32 and float64 models run as they are.

    Nothing is cached: autocast keeps its bfloat16 copies until its outermost context ends, and an update takes several
    optimizer steps within one, so all but the first would compute with the weights before them."""
    return torch.autocast(device.type, dtype, cache_enabled=False) if dtype is torch.bfloat16 else nullcontext()
