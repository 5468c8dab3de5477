"""What is the same for all episodes of one rollout, taken from the configuration.

Why: training and evaluation play the same episodes by a few different rules, and this is where they differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from envs import registry
from mh_train.agent.loop import EpisodeSpec
from mh_train.config.schema import RewardConfig, RunConfig, Trigger, Use


@dataclass(frozen=True)
class Rules:
    """`template` is every episode's spec without task and number; ids are `<label>-g<group>-e<episode>`."""

    template: EpisodeSpec
    reward: RewardConfig
    label: str
    seed_parts: tuple[int | str, ...]
    """What keys the noise besides task, episode and turn."""
    group: int = 1
    """G: episodes per task."""
    retries: int = 2
    """Fresh attempts of an episode that broke its environment; then its group is dropped."""
    concurrency: int = 0
    """Episodes at once; 0 = all."""


def training_rules(config: RunConfig, update: int) -> Rules:
    """SPEC 3: groups of G at the rollout temperature, noise from (run seed, update)."""
    rollout, memory = config.rollout, config.memory
    template = _template(config, memory.use, memory.trigger, rollout.temperature, rollout.top_p, rollout.top_k)
    label = f"u{update:05d}"
    return Rules(
        template, config.reward, label, (config.seed, update), rollout.group, rollout.retries, rollout.concurrency
    )


def evaluation_rules(config: RunConfig, use: Use, trigger: Trigger, seed: int, label: str) -> Rules:
    """SPEC 7: one episode per task at `evaluate.temperature`; equal noise in all modes, so that they compare."""
    template = _template(config, use, trigger, config.evaluate.temperature, 1.0, 0)
    rollout = config.rollout
    return Rules(template, config.reward, label, ("eval", seed), 1, rollout.retries, rollout.concurrency)


def _template(
    config: RunConfig, use: Use, trigger: Trigger, temperature: float, top_p: float, top_k: int
) -> EpisodeSpec:
    env, memory = config.env, config.memory
    return EpisodeSpec(
        id="",
        env=env.name,
        split="",
        task_id="",
        task_type="",
        group=0,
        episode=0,
        noise_parts=(),
        horizon=env.horizon,
        use=use.value,
        trigger=trigger.value,
        max_retrievals=memory.max_retrievals,
        retrieval_costs_step=memory.retrieval_costs_step,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        max_tokens=env.completion_tokens,
        lowercase_actions=registry.load(env.name).lowercase_actions,
        train_reconstruct=config.learn.train_reconstruct,
    )
