"""Which values each number may take by itself, and which words a text may be.

Why: a table of keys is easier to keep complete than a function per key. Invariant: a value out of its range is told
with its key; numbers that are not finite are out of every range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from mh_train.config.schema import RunConfig

KNOWN = {
    "engine.name": ("transformers", "vllm", "vllm_server", "api", "scripted", "simulated"),
    "memory.reconstructor.engine.name": ("transformers", "vllm", "api", "scripted"),
    "memory.verifier.engine.name": ("transformers", "vllm", "api", "scripted"),
    "prompt.preset": ("full", "compact", "release"),
    "memory.distill.only": ("", "success", "failure"),
    "model.dtype": ("float32", "bfloat16", "float16"),
    "model.lora.quantize": ("", "nf4"),
    "learn.importance": ("none", "token", "turn"),
    "launcher.name": ("here", "local", "slurm"),
    "launcher.strategy": ("ddp", "fsdp2", "zero2", "zero3"),
    "memory.embedder.name": ("wordllama", "sentence_transformers", "bge_m3", "hashing"),
}
POSITIVE = (
    "env.horizon env.prompt_tokens env.completion_tokens env.timeout_s model.tiny.hidden model.tiny.layers "
    "model.tiny.heads model.tiny.intermediate model.lora.r model.lora.alpha engine.max_batch rollout.tasks "
    "rollout.group rollout.temperature reward.success memory.k memory.max_retrievals memory.budget "
    "memory.embedder.batch memory.embedder.dim memory.distill.fraction memory.distill.per_trajectory "
    "memory.distill.max_tokens memory.distill.prompt_tokens memory.dedup.pool memory.verifier.views "
    "memory.verifier.taper memory.verifier.max_tokens memory.verifier.prompt_tokens memory.scoring.pool "
    "memory.reconstructor.engine.max_batch memory.verifier.engine.max_batch learn.updates learn.lr learn.clip_low "
    "learn.clip_high learn.grad_clip learn.minibatch_turns learn.token_budget learn.importance_cap learn.step_discount "
    "learn.checkpoint.every learn.checkpoint.keep_last sft.trajectories sft.epochs sft.lr sft.batch sft.max_tokens "
    "stream.tasks launcher.nodes launcher.gpus launcher.gpu_memory_gb launcher.minutes launcher.cpus"
)
NOT_NEGATIVE = (
    "threads env.history env.workers rollout.retries rollout.concurrency reward.format_weight reward.min_retrievals "
    "memory.distill.min_steps memory.distill.temperature memory.prune.every memory.prune.min_uses "
    "memory.scoring.summaries memory.scoring.guards memory.lifecycle.stale_after learn.weight_decay learn.dual_clip "
    "learn.kl learn.entropy learn.step_weight learn.checkpoint.keep_every sft.summaries evaluate.limit "
    "evaluate.temperature evaluate.every evaluate.every_limit launcher.port launcher.requeues launcher.memory_gb"
)
SHARES = (
    "model.lora.dropout memory.dropout memory.lexical_weight memory.noise memory.distill.fraction memory.dedup.write "
    "memory.dedup.read memory.prune.utility memory.verifier.low memory.verifier.high memory.verifier.alpha "
    "memory.verifier.repeat_above memory.admission.reward memory.admission.confidence memory.admission.reject_below "
    "memory.scoring.min_relevance memory.scoring.min_confidence memory.scoring.guard_relevance "
    "memory.scoring.guard_confidence memory.lifecycle.merge memory.lifecycle.conflict memory.lifecycle.margin "
    "memory.lifecycle.summarise memory.lifecycle.min_quality learn.clip_low learn.step_discount sft.ask_share "
    "sft.reject_share sft.expert_noise stream.error stream.fooled stream.slip"
)
RULES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (POSITIVE, lambda value: value > 0, "must be greater than 0."),
    (NOT_NEGATIVE, lambda value: value >= 0, "must not be negative."),
    (SHARES, lambda value: value is None or 0 <= value <= 1, "must lie between 0 and 1."),
)


def out_of_range(config: RunConfig) -> Iterator[str]:
    """One sentence per value that its key cannot take."""
    for key, value in _numbers(config, ""):
        if not math.isfinite(value):
            yield f"{key}={value} is not a finite number."
    for key, allowed in KNOWN.items():
        word = lookup(config, key)
        own = key.endswith("engine.name") and ":" in str(word)  # "module:Class"
        if word not in allowed and not own:
            yield f"{key}={word} is unknown; choose one of {', '.join(allowed)}."
    for keys, holds, sentence in RULES:
        for key in keys.split():
            if not holds(lookup(config, key)):
                yield f"{key}={lookup(config, key)} {sentence}"


def lookup(config: RunConfig, key: str) -> object:
    """The value at a dotted key."""
    value: object = config
    for part in key.split("."):
        value = getattr(value, part)
    return value


def _numbers(value: Any, key: str) -> Iterator[tuple[str, float]]:
    """Every float of the schema, also those in lists, with its dotted key."""
    if is_dataclass(value):
        for item in fields(value):
            yield from _numbers(getattr(value, item.name), f"{key}.{item.name}".lstrip("."))
    elif isinstance(value, float):
        yield key, value
    elif isinstance(value, list):
        yield from ((key, one) for one in value if isinstance(one, float))
