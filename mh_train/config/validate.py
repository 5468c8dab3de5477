"""Combinations of settings that cannot work, each refused with one sentence that names its key.

Why: whatever can be known before a model is loaded is told then. What concerns the bank is in `validate_memory.py`.
Invariant: `validate` imports nothing heavy and never raises; it returns every problem, not only the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

from omegaconf import MISSING

from mh_train.config.ranges import out_of_range
from mh_train.config.schema import Estimator, FlatGroups, RunConfig, Select, Use
from mh_train.config.validate_memory import memory_problems

MODES = ("memory", "none", "replay", "empty", "external", "source_removed", "source_random")
"""What `evaluate.modes` may hold (the keys of `mh_train.evaluate.modes.MODES`)."""


def validate(config: RunConfig) -> list[str]:
    """All problems of a configuration as sentences; empty when it can run."""
    return [
        *out_of_range(config),
        *_run(config),
        *_sampling(config),
        *memory_problems(config),
        *_batches(config),
        *_learning(config),
        *_evaluation(config),
        *_launching(config),
        *_quantised(config),
    ]


def _run(config: RunConfig) -> Iterator[str]:
    for key, value in (("env.name", config.env.name), ("model.path", config.model.path)):
        if value in (MISSING, ""):
            yield f"{key} is not set; choose a config group (for example {key.split('.')[0]}=...) or give the value."
    parts = PurePath(config.name).parts
    if not parts or PurePath(config.name).is_absolute() or ".." in parts:
        yield f"name={config.name!r} is no name of a folder below root={config.root}."
    if config.data.maker and ":" not in config.data.maker:
        yield f"data.maker={config.data.maker} must be module:function."
    tiny = config.model.tiny
    if config.model.path == "tiny" and tiny.hidden % (2 * max(1, tiny.heads)):
        yield f"model.tiny.hidden={tiny.hidden} must divide by twice model.tiny.heads={tiny.heads}."
    lora = config.model.lora
    if lora.enabled and not lora.target_modules:
        yield "model.lora.target_modules is empty, so the adapter would have no weights; name at least one layer."


def _sampling(config: RunConfig) -> Iterator[str]:
    if config.rollout.top_p != 1.0 or config.rollout.top_k != 0:
        yield (
            "rollout.top_p must be 1 and rollout.top_k 0: truncated sampling biases the importance ratio in training; "
            "set them for evaluation only."
        )
    if not 0 <= config.rollout.max_staleness <= 4:
        yield f"rollout.max_staleness={config.rollout.max_staleness} must lie between 0 and 4."
    if config.rollout.max_staleness and config.engine.name == "transformers":
        yield (
            "rollout.max_staleness above 0 needs an engine with weights of its own: engine=transformers generates with "
            "those that the learner is changing. Choose engine=vllm or vllm_server."
        )
    tiny = config.model.path == "tiny"
    if tiny and config.env.prompt_tokens + config.env.completion_tokens > config.model.tiny.context:
        yield "model.tiny.context is shorter than env.prompt_tokens + env.completion_tokens; raise it."
    reward, memory = config.reward, config.memory
    if reward.min_retrievals > reward.max_retrievals:
        yield "reward.min_retrievals is above reward.max_retrievals, so the format reward can never be full."
    if memory.use is not Use.none and reward.min_retrievals > memory.max_retrievals:
        yield "reward.min_retrievals is above memory.max_retrievals, so the format reward can never be full."


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
    whole_batch = config.learn.estimator is Estimator.reinforce_pp and not config.learn.estimator_function
    if whole_batch and episodes < 2:
        yield "rollout.tasks * rollout.group must be at least 2: a single episode has no advantage."
    elif whole_batch and config.rollout.group < 2 and config.learn.flat_groups is FlatGroups.drop:
        yield "learn.flat_groups=drop drops every group of one; use keep, or raise rollout.group."
    elif not whole_batch and config.rollout.group < 2:
        yield "rollout.group must be at least 2: a group of one has no advantage."


def _learning(config: RunConfig) -> Iterator[str]:
    learn = config.learn
    if len(learn.betas) != 2 or not all(0 <= beta < 1 for beta in learn.betas):
        yield f"learn.betas={learn.betas} must be two numbers from 0 up to, not including, 1."
    if learn.dual_clip and learn.dual_clip <= 1:
        yield "learn.dual_clip must be above 1 (the papers' field uses 3), or 0 to switch it off."
    if learn.estimator_function and ":" not in learn.estimator_function:
        yield f"learn.estimator_function={learn.estimator_function} must be module:function."
    if config.model.dtype == "float16":
        yield "model.dtype=float16 overflows in training; use bfloat16 or float32."
    if learn.checkpoint.select is Select.best and not config.evaluate.every:
        yield "learn.checkpoint.select=best needs evaluate.every: no checkpoint is ever compared with another."


def _evaluation(config: RunConfig) -> Iterator[str]:
    evaluate = config.evaluate
    for key, values in (("panels", evaluate.panels), ("seeds", evaluate.seeds), ("modes", evaluate.modes)):
        if not values:
            yield f"evaluate.{key} is empty; name at least one, or leave it at its default."
        twice = [str(value) for value, count in Counter(values).items() if count > 1]
        if twice:
            yield f"evaluate.{key} names {', '.join(twice)} more than once."
    unknown = [mode for mode in evaluate.modes if mode not in MODES]
    if unknown:
        yield f"evaluate.modes holds {', '.join(unknown)}, which is unknown; choose among {', '.join(MODES)}."
    if evaluate.every and config.rollout.max_staleness:
        yield "evaluate.every needs rollout.max_staleness=0: an evaluation must not meet episodes in flight."
    if config.learn.checkpoint.select is Select.best and evaluate.every_panel in evaluate.panels:
        yield (
            f"learn.checkpoint.select=best chooses on evaluate.every_panel={evaluate.every_panel}, which "
            "evaluate.panels reports too; report other panels."
        )
    if evaluate.every and not evaluate.every_panel:
        yield "evaluate.every_panel is empty; name the split on which checkpoints are compared."


def _launching(config: RunConfig) -> Iterator[str]:
    launcher, lora = config.launcher, config.model.lora
    if launcher.name == "here":
        return
    if launcher.strategy in ("fsdp2", "zero3") and lora.enabled:
        yield "launcher.strategy must be ddp or zero2 with LoRA: its base stays whole on every GPU."
    if launcher.strategy in ("fsdp2", "zero3") and config.engine.name == "transformers":
        yield (
            f"launcher.strategy={launcher.strategy} divides the weights, so engine=transformers cannot generate with "
            "them; choose engine=vllm."
        )
    if launcher.name == "local" and launcher.nodes > 1:
        yield "launcher=local starts this machine alone; use launcher=slurm for launcher.nodes > 1."


def _quantised(config: RunConfig) -> Iterator[str]:
    lora = config.model.lora
    if lora.quantize and not lora.enabled:
        yield "model.lora.quantize trains an adapter over a frozen base; set model.lora.enabled=true (lora=qlora)."
