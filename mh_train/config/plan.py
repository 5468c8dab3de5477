"""Does a run fit: memory per GPU, tokens per update, engine replicas; known before anything is loaded.

Why: an out-of-memory error after an hour of rollout is the most expensive way to learn a size. Invariant: every term
follows from the configuration alone; `tests/config/test_plan.py` holds each against a measured model.

What is held on one of N GPUs (bytes per parameter; trained parameters are float32, frozen ones as loaded):
weights 4, gradients 4, Adam 8, DDP's buckets 4, a frozen reference as loaded (`learn.kl` > 0 without LoRA);
`zero2` divides gradients and Adam by N, `fsdp2` and `zero3` weights as well. An update adds activations; a rollout adds
the engine's weights and its KV cache, unless other GPUs serve it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil

from mh_train.config.schema import RunConfig
from mh_train.config.shapes import Shape, shape_of
from mh_train.config.sizes import derived_sizes

GB = 1e9
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
NF4 = 0.52
"""Bytes per 4-bit weight with its block constants (one byte per 64 weights, themselves quantised)."""
CHUNK = 2**25 * 4 * 4
"""Logits of one chunk in float32 and what is computed from them (`learn.logprobs.LOGITS_AT_ONCE`)."""
CONTEXT = 1.5e9
"""CUDA context, kernels' workspaces, communication buffers."""
FRAGMENTED = 1.08
"""What the allocator loses between blocks."""


@dataclass(frozen=True)
class Machine:
    """`nodes` x `gpus` devices of `memory` bytes each."""

    nodes: int = 1
    gpus: int = 1
    memory: float = 80 * GB

    @property
    def processes(self) -> int:
        """Trainer processes: one per GPU."""
        return self.nodes * self.gpus


@dataclass(frozen=True)
class Plan:
    """Bytes per GPU by what holds them, at the peak of update and rollout, and what to know before starting."""

    machine: Machine
    strategy: str
    parameters: int
    trained: int
    parts: dict[str, float]
    update: float
    rollout: float
    replicas: int
    episodes_per_replica: int
    tokens: int
    warnings: list[str] = field(default_factory=list)

    @property
    def peak(self) -> float:
        """The most that one GPU holds, in bytes."""
        return max(self.update, self.rollout)


def parse_gpus(text: str) -> tuple[int, float]:
    """`8x80GB` (or ×; the memory may be left out) -> (GPUs per node, bytes each). Raises `ValueError`."""
    found = re.fullmatch(r"(\d+)(?:[x×*](\d+(?:\.\d+)?)(?:GB|G)?)?", text.strip(), re.IGNORECASE)
    if found is None or int(found[1]) < 1:
        raise ValueError(f"gpus={text} is not a number of GPUs and their memory; write for example gpus=8x80GB.")
    return int(found[1]), float(found[2] or 80) * GB


def make_plan(config: RunConfig, machine: Machine, strategy: str) -> Plan:
    """The plan of a run. Raises `ValueError` when nothing is known about the model."""
    shape = shape_of(config.model)
    if shape is None:
        raise ValueError(
            f"Nothing is known about model.path={config.model.path}: give a folder with its config.json "
            "(the weights need not be there)."
        )
    parts = trainer_memory(config, shape, machine.processes, strategy)
    served_here = config.engine.name != "api" and not config.engine.name.endswith("_server")
    replicas = max(1, machine.processes // int(config.engine.options.get("tensor_parallel_size", 1)))
    episodes = ceil(config.rollout.tasks * config.rollout.group / replicas)
    if served_here:
        parts |= engine_memory(config, shape, episodes)
    resident = sum(parts[name] for name in ("weights", "reference", "optimizer", "buckets"))
    update = resident + parts["gradients"] + parts["activations"]
    rollout = resident + parts.get("engine weights", 0.0) + parts.get("KV cache", 0.0)
    if not sleeps(config):
        update += parts.get("engine weights", 0.0) + parts.get("KV cache", 0.0)
    sizes = derived_sizes(config)
    plan = Plan(
        machine,
        strategy,
        shape.parameters,
        trained_parameters(config, shape),
        parts,
        CONTEXT + FRAGMENTED * update,
        CONTEXT + FRAGMENTED * rollout,
        replicas,
        episodes,
        sizes["turns per update, at most"] * sizes["tokens per turn, at most"],
    )
    plan.warnings.extend(_warnings(plan, config, shape))
    return plan


def trained_parameters(config: RunConfig, shape: Shape) -> int:
    """Parameters that get gradients."""
    lora = config.model.lora
    return shape.lora(lora.r, lora.target_modules) if lora.enabled else shape.parameters


def trainer_memory(config: RunConfig, shape: Shape, processes: int, strategy: str) -> dict[str, float]:
    """Bytes on one GPU of everything that the learner holds (names as in `Plan.parts`)."""
    lora, loaded = config.model.lora, BYTES[config.model.dtype]
    trained = trained_parameters(config, shape)
    states = processes if strategy in ("zero2", "zero3", "fsdp2") else 1
    shards = processes if strategy in ("zero3", "fsdp2") else 1
    frozen = frozen_bytes(config, shape) if lora.enabled else 0.0
    gathered = 2 * (shape.layer_weights + shape.embeddings) * 4 if shards > 1 else 0.0  # this layer and the next one
    reference = shape.parameters * loaded if config.learn.kl > 0 and not lora.enabled else 0.0
    return {
        "weights": (4.0 * trained + frozen) / shards + gathered,
        "reference": reference / (processes if strategy == "fsdp2" else 1),
        "gradients": 4.0 * trained / states,
        "optimizer": 8.0 * trained / states,
        "buckets": 4.0 * trained if strategy == "ddp" and processes > 1 else 0.0,
        "activations": activation_memory(config, shape),
    }


def frozen_bytes(config: RunConfig, shape: Shape) -> float:
    """Bytes of a frozen base: as loaded, or its linear maps in 4 bits."""
    loaded = BYTES[config.model.dtype]
    if not config.model.lora.quantize:
        return float(shape.parameters * loaded)
    linear = shape.layers * shape.layer_weights
    return linear * NF4 + (shape.parameters - linear) * loaded


def activation_memory(config: RunConfig, shape: Shape) -> float:
    """Bytes that a micro-batch of `learn.token_budget` tokens leaves for its backward pass, and its chunk of logits.

    The residual stream is float32 under autocast; everything else has the width that is computed in. With gradient
    checkpointing one residual per layer stays and a single layer is recomputed at a time."""
    tokens, computed = config.learn.token_budget, BYTES[config.model.dtype]
    frozen_base = config.model.lora.enabled
    residual = computed if frozen_base else 4
    attention = (2 * shape.heads + 2 * shape.kv_heads) * shape.head_dim * computed
    layer = tokens * (
        2 * (2 * residual + computed) * shape.hidden + attention + 4 * shape.intermediate * computed
    ) + shape.layer_weights * (0 if frozen_base or computed == 4 else computed)
    head = min(CHUNK, 4 * 4 * tokens * shape.vocab)
    if config.model.gradient_checkpointing:
        return tokens * shape.layers * shape.hidden * residual + 2 * layer + head
    return shape.layers * layer + head


def engine_memory(config: RunConfig, shape: Shape, episodes: int) -> dict[str, float]:
    """Bytes of an engine beside the trainer: its own weights (none when it shares the trainer's) and the KV cache of
    the longest `episodes` at once."""
    width = BYTES[config.model.dtype]
    at_once = min(episodes, config.engine.max_batch)
    tokens = at_once * (config.env.prompt_tokens + config.env.completion_tokens)
    shared = config.engine.name == "transformers"
    parallel = int(config.engine.options.get("tensor_parallel_size", 1))
    return {
        "engine weights": 0.0 if shared else shape.parameters * width / parallel,
        "KV cache": tokens * shape.kv_elements * width / parallel,
    }


def sleeps(config: RunConfig) -> bool:
    """Whether the engine gives its memory back around the update."""
    return config.engine.name == "transformers" or bool(config.engine.options.get("enable_sleep_mode", False))


def _warnings(plan: Plan, config: RunConfig, shape: Shape) -> Iterator[str]:
    memory, gb = plan.machine.memory, f"{plan.machine.memory / GB:.0f} GB"
    if plan.update > memory:
        yield f"The update needs {plan.update / GB:.1f} GB of {gb}. {_remedy(plan, config)}"
    if plan.rollout > memory:
        yield (
            f"The rollout needs {plan.rollout / GB:.1f} GB of {gb}: lower engine.max_batch, shard the trainer "
            "(launcher.strategy=fsdp2), or serve the engine from other GPUs."
        )
    if 0.9 * memory < plan.peak <= memory:
        yield f"It fits with less than 10 % to spare ({plan.peak / GB:.1f} of {gb}); the estimate is not that exact."
    if config.engine.name == "transformers" and plan.strategy in ("fsdp2", "zero3"):
        yield "engine=transformers cannot generate with sharded weights; choose engine=vllm."
    if config.engine.name == "transformers" and plan.parameters > 1e9:
        yield "engine=transformers generates slowly at this size; choose engine=vllm."
    if plan.machine.processes > config.rollout.tasks:
        yield (
            f"{plan.machine.processes} processes share {config.rollout.tasks} groups: some play none; raise "
            "rollout.tasks."
        )
    if config.learn.minibatch_turns < plan.machine.processes:
        yield "learn.minibatch_turns is below the number of processes: some compute nothing; raise it."


def _remedy(plan: Plan, config: RunConfig) -> str:
    advice = []
    if not config.model.gradient_checkpointing:
        advice.append("model.gradient_checkpointing=true")
    if plan.strategy in ("ddp", "zero2") and plan.machine.processes > 1:
        advice.append("launcher.strategy=fsdp2")
    if not config.model.lora.enabled:
        advice.append("lora=all")
    elif not config.model.lora.quantize:
        advice.append("lora=qlora")
    advice.append("a lower learn.token_budget, or more GPUs")
    return f"Try {', '.join(advice)}."
