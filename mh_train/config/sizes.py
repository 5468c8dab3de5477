"""Sizes that follow from a configuration: tasks x group -> episodes -> turns -> minibatches -> tokens.

Why: batch-size names confuse everybody; `--dry-run` and the start of a run print what they amount to.
"""

from __future__ import annotations

from math import ceil

from mh_train.config.schema import Judging, RunConfig, Use, Writer


def longest_context(config: RunConfig) -> int:
    """The longest prompt + completion that the policy will be asked for, in tokens: what an engine must hold."""
    memory = config.memory
    lengths = [config.env.prompt_tokens + config.env.completion_tokens]
    if memory.use is not Use.none and memory.write and memory.writer is Writer.distill:
        lengths.append(memory.distill.prompt_tokens + memory.distill.max_tokens)
    if memory.use is not Use.none and memory.verifier.source is Judging.policy:
        lengths.append(memory.verifier.prompt_tokens + memory.verifier.max_tokens)
    return max(lengths)


def derived_sizes(config: RunConfig) -> dict[str, int]:
    """Counts per update, at most (every episode runs to the horizon with all its retrievals)."""
    episodes = config.rollout.tasks * config.rollout.group
    retrievals = 0 if config.memory.use is Use.none else config.memory.max_retrievals
    reconstruct = retrievals if config.memory.use in (Use.reconstruct, Use.external) else 0
    turns = episodes * (config.env.horizon + retrievals + reconstruct)
    return {
        "tasks per update": config.rollout.tasks,
        "episodes per update": episodes,
        "turns per update, at most": turns,
        "optimizer steps per update, at most": ceil(turns / config.learn.minibatch_turns),
        "tokens per turn, at most": config.env.prompt_tokens + config.env.completion_tokens,
        "packed tokens per micro-batch": config.learn.token_budget,
        "episodes in the run": episodes * config.learn.updates,
        "memories written per update, at most": int(episodes * config.memory.distill.fraction)
        * config.memory.distill.per_trajectory
        * int(config.memory.write and config.memory.use is not Use.none),
    }
