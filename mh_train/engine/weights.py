"""The trainer's weights on their way to an engine: under checkpoint names, whole, in the engine's precision.

Why: trainers wrap (peft), shard (FSDP2) and promote (float32 masters) what an engine wants plain. Invariant: names and
shapes are those of the start checkpoint, tied weights appear once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")


def has_adapter(model: Any) -> bool:
    """Whether the policy is a peft adapter over a frozen base."""
    return hasattr(model, "peft_config")


def named_weights(model: Any, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """(checkpoint name, tensor in `dtype`) of every parameter; sharded ones are gathered, which all ranks must join.

    `model` is a plain transformers model; the weights of an adapter's base do not change and are never sent.
    """
    for name, parameter in model.named_parameters():
        whole = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
        yield name, whole.detach().to(dtype)


def save_weights(model: Any, dtype: torch.dtype, folder: Path) -> Path:
    """Write all weights as one safetensors file into `folder`; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "weights.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in named_weights(model, dtype)}, path)
    return path


def save_adapter(model: Any, folder: Path) -> Path:
    """Write the adapter alone, as peft does, into an empty `folder`; its path."""
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    return folder


def exchange_folder(asked: str = "") -> Path:
    """Where weights are left for engines: `asked` (a file system that all of them see), or memory of this machine."""
    shared = Path("/dev/shm")
    root = Path(asked) if asked else shared if shared.is_dir() else Path(os.environ.get("TMPDIR", "/tmp"))
    return root / f"mh_train-weights-{os.getpid()}"
