"""A scripted policy of the toy environment that asks, rewrites, acts and remembers; and a model that can score it."""

import random
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from mh_train.config.schema import EngineConfig, TinyConfig
from mh_train.engine.scripted import ScriptedEngine
from mh_train.engine.tiny import build_tiny

LETTERS = 9000
"""Vocabulary of the model: the scripted engine's ids are code points."""
SETTINGS = [
    *("engine.name=talker:Talker", "prompt.preset=full", "learn.token_budget=9000"),
    *("env.prompt_tokens=6000", "env.completion_tokens=300", "env.horizon=6", "memory.distill.max_tokens=300"),
    "model.tiny.context=8192",
]


def talk(prompt: str, rng: random.Random) -> str:
    """A sensible answer to every kind of prompt."""
    if "Mode: distill" in prompt:
        room = rng.choice(["cellar", "attic", "garden", "kitchen"])
        return f'{{"memories": [{{"situation": "no key yet", "memory": "Search the {room} before the chest."}}]}}'
    if "Mode: rewrite" in prompt:
        return rng.choice(["Search the next room first.", "<EMPTY>"])
    if "Mode: act or ask" in prompt and rng.random() < 0.4:
        return "<think>ask</think><retrieve_memory>where is the key</retrieve_memory>"
    actions = prompt.split("Admissible actions:\n")[-1].split("\n\n")[0].split("\n")
    return f"<think>try</think><action>{rng.choice(actions)}</action>"


class Talker(ScriptedEngine):
    """`talk` in place of the model: what it says depends on no weight, so that runs can be compared to the byte."""

    def __init__(self, config: EngineConfig, model: Any, tokenizer: Any) -> None:
        super().__init__(talk)


def make_model(folder: Path) -> None:
    """A random model over characters in `folder`, with a tokenizer that nobody asks."""
    build_tiny(TinyConfig(hidden=32, layers=1, heads=1, intermediate=64, context=8192), ["a"], 0, folder)
    config = AutoConfig.from_pretrained(folder, vocab_size=LETTERS)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
