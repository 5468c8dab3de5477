"""What an engine with weights of its own must be told about the policy it serves.

Why: such an engine (vLLM, in process or as servers) opens the model itself, before the trainer has one to give.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mh_train.config.schema import LoraConfig


@dataclass(frozen=True)
class Serving:
    """`path` is a Hugging Face folder (or hub id) with the start weights; `max_context` the longest prompt +
    completion that the run will ask for, in tokens; `dtype` what the policy computes in; `lora` the adapter to come."""

    path: str
    max_context: int
    dtype: str = "float32"
    lora: LoraConfig = field(default_factory=LoraConfig)
    seed: int = 0
