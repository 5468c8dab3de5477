"""Combinations of settings that cannot work, each refused with one sentence that names its key.

Why: whatever can be known before a model is loaded is told then. Invariant: `validate` imports nothing heavy and never
raises; it returns every problem, not only the first.
"""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import MISSING

from mh_train.config.schema import Judging, RunConfig, Trigger, Use

KNOWN = {
    "engine.name": ("transformers", "api", "scripted", "simulated"),
    "prompt.preset": ("full", "compact", "release"),
    "model.dtype": ("float32", "bfloat16", "float16"),
    "learn.importance": ("none", "token"),
    "memory.embedder.name": ("wordllama", "sentence_transformers", "bge_m3", "hashing"),
}
POSITIVE = (
    "env.horizon env.prompt_tokens env.completion_tokens rollout.tasks rollout.group memory.k memory.budget "
    "learn.updates learn.lr learn.minibatch_turns learn.token_budget learn.grad_clip engine.max_batch "
    "sft.batch sft.lr sft.epochs"
)
SHARES = "memory.dropout memory.distill.fraction sft.reject_share sft.expert_noise"


def validate(config: RunConfig) -> list[str]:
    """All problems of a configuration as sentences; empty when it can run."""
    return [*_ranges(config), *_sampling(config), *_memory(config), *_batches(config), *_evaluation(config)]


def lookup(config: RunConfig, key: str) -> object:
    """The value at a dotted key."""
    value: object = config
    for part in key.split("."):
        value = getattr(value, part)
    return value


def _ranges(config: RunConfig) -> Iterator[str]:
    for key, allowed in KNOWN.items():
        own = key == "engine.name" and ":" in config.engine.name  # "module:Class"
        if lookup(config, key) not in allowed and not own:
            yield f"{key}={lookup(config, key)} is unknown; choose one of {', '.join(allowed)}."
    for key in POSITIVE.split():
        if not lookup(config, key) > 0:  # type: ignore[operator]
            yield f"{key}={lookup(config, key)} must be greater than 0."
    for key in SHARES.split():
        if not 0 <= lookup(config, key) <= 1:  # type: ignore[operator]
            yield f"{key}={lookup(config, key)} must lie between 0 and 1."
    for key in ("env.name", "model.path"):
        if lookup(config, key) in (MISSING, ""):
            yield f"{key} is not set; choose a config group (for example {key.split('.')[0]}=...) or give the value."


def _sampling(config: RunConfig) -> Iterator[str]:
    if config.rollout.top_p != 1.0 or config.rollout.top_k != 0:
        yield (
            "rollout.top_p must be 1 and rollout.top_k 0: truncated sampling biases the importance ratio in training; "
            "set them for evaluation only."
        )
    if config.rollout.temperature <= 0:
        yield "rollout.temperature must be greater than 0: greedy rollouts have no spread within a group."
    if config.rollout.group < 2:
        yield "rollout.group must be at least 2: a group of one has no advantage."
    tiny = config.model.path == "tiny"
    if tiny and config.env.prompt_tokens + config.env.completion_tokens > config.model.tiny.context:
        yield "model.tiny.context is shorter than env.prompt_tokens + env.completion_tokens; raise it."


def _memory(config: RunConfig) -> Iterator[str]:
    memory = config.memory
    if memory.use is Use.none and memory.trigger is not Trigger.off:
        yield "memory.use=none needs memory.trigger=off: a policy without memory must not be offered retrieval."
    if memory.use is not Use.none and memory.trigger is Trigger.off:
        yield f"memory.trigger=off never retrieves, so memory.use={memory.use.value} is idle; set memory.use=none."
    if memory.use is not Use.none and not memory.write and not memory.start_from:
        yield "memory.write=false with no memory.start_from leaves the bank empty for ever; give a snapshot folder."
    if memory.verifier.source is Judging.engine:
        yield "memory.verifier.source=engine is not built by the stages yet; choose policy or runtime_status."
    if memory.max_retrievals < 1:
        yield "memory.max_retrievals must be at least 1; use memory=none to train without memory."
    if config.reward.min_retrievals > config.reward.max_retrievals:
        yield "reward.min_retrievals is above reward.max_retrievals, so the format reward can never be full."
    if memory.dedup.pool < memory.k:
        yield "memory.dedup.pool must be at least memory.k: hits are cut from that pool."
    if memory.milvus.uri and "://" not in memory.milvus.uri:
        yield "memory.milvus.uri must be a server address such as http://host:19530; leave it empty for Milvus Lite."


def _batches(config: RunConfig) -> Iterator[str]:
    episodes = config.rollout.tasks * config.rollout.group
    most_turns = episodes * (config.env.horizon + 2 * config.memory.max_retrievals)
    if config.learn.minibatch_turns > most_turns:
        yield (
            f"learn.minibatch_turns={config.learn.minibatch_turns} is larger than a whole rollout can be "
            f"({episodes} episodes, at most {most_turns} turns); lower it or raise rollout.tasks."
        )
    longest = config.env.prompt_tokens + config.env.completion_tokens
    if config.learn.token_budget < longest:
        yield (
            f"learn.token_budget={config.learn.token_budget} is below the longest row "
            f"(env.prompt_tokens + env.completion_tokens = {longest}); raise it."
        )
    if config.learn.dual_clip and config.learn.dual_clip <= 1:
        yield "learn.dual_clip must be above 1 (the papers' field uses 3), or 0 to switch it off."


def _evaluation(config: RunConfig) -> Iterator[str]:
    evaluate = config.evaluate
    if not evaluate.panels:
        yield "evaluate.panels is empty; name at least one split, for example [valid_unseen]."
    if config.memory.use is Use.external or "external" in evaluate.modes:
        yield "memory.use and evaluate.modes cannot be external yet: no setting names the other reconstructor."
    if not evaluate.seeds:
        yield "evaluate.seeds is empty; give at least one seed."
