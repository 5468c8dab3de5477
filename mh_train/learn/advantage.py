"""Advantages from the rewards of a group: GRPO (MemHarness eq. 7), RLOO, Dr. GRPO (SPEC 3).

Why: statistics are taken over the G trajectories of a task, never over turn rows, so that long episodes do not weigh
more. Invariant: the advantages of a group sum to zero; a group without spread gets zeros.
A further estimator is one function in `ESTIMATORS`: (trajectories of one group, their rewards) -> one value per
trajectory, or one sequence of per-turn values per trajectory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum, sqrt

from mh_train.agent.types import Trajectory
from mh_train.config.schema import FlatGroups, LearnConfig

Advantage = float | Sequence[float]
EPSILON = 1e-6


def grpo(group: Sequence[Trajectory], rewards: Sequence[float]) -> list[Advantage]:
    """A_i = (R_i - mean) / (std + 1e-6) with the population's standard deviation."""
    centred = _centred(rewards)
    std = sqrt(fsum(value * value for value in centred) / len(centred))
    return [value / (std + EPSILON) for value in centred]


def rloo(group: Sequence[Trajectory], rewards: Sequence[float]) -> list[Advantage]:
    """A_i = R_i - mean of the other G - 1 rewards (arXiv 2402.14740); 0 in a group of one."""
    others = len(rewards) - 1
    return [value * len(rewards) / others if others else 0.0 for value in _centred(rewards)]


def dr_grpo(group: Sequence[Trajectory], rewards: Sequence[float]) -> list[Advantage]:
    """A_i = R_i - mean, without the division by the spread (arXiv 2503.20783)."""
    return list(_centred(rewards))


ESTIMATORS: dict[str, Callable[[Sequence[Trajectory], Sequence[float]], list[Advantage]]] = {
    "grpo": grpo,
    "rloo": rloo,
    "dr_grpo": dr_grpo,
}


def compute_advantages(
    trajectories: Sequence[Trajectory], config: LearnConfig
) -> tuple[list[Advantage], dict[str, float]]:
    """One advantage per trajectory (in input order) and metrics; groups are told apart by `Trajectory.group`.

    `flat_groups` rules groups whose outcomes are all equal: `keep` normalises whatever spread the format reward leaves
    (the paper), `drop` gives them zeros, `outcome_only` takes every advantage from the outcome part alone.
    """
    groups: dict[int, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        groups.setdefault(trajectory.group, []).append(index)
    advantages: list[Advantage] = [0.0] * len(trajectories)
    flat = zero = 0
    for members in groups.values():
        group = [trajectories[index] for index in members]
        outcomes = [_outcome(trajectory) for trajectory in group]
        rewards = outcomes if config.flat_groups is FlatGroups.outcome_only else [t.reward for t in group]
        no_outcome_spread = min(outcomes) == max(outcomes)
        silent = min(rewards) == max(rewards) or (no_outcome_spread and config.flat_groups is FlatGroups.drop)
        flat, zero = flat + no_outcome_spread, zero + silent
        if not silent:
            for index, value in zip(members, ESTIMATORS[config.estimator.value](group, rewards), strict=True):
                advantages[index] = value
    count = max(1, len(groups))
    return advantages, {"learn/frac_flat_groups": flat / count, "learn/frac_zero_std": zero / count}


def _centred(rewards: Sequence[float]) -> list[float]:
    mean = fsum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def _outcome(trajectory: Trajectory) -> float:
    if "outcome" not in trajectory.reward_parts:
        raise ValueError(
            f"Trajectory {trajectory.id} has no reward part 'outcome'; score it before computing advantages."
        )
    return trajectory.reward_parts["outcome"]
