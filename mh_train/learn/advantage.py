"""Advantages of an update's trajectories: which groups count, and `learn.estimator` on them (SPEC 3).

Why: what to do with groups that all won or all lost is the same question for every estimator (`learn.estimators`).
Invariant: a group without spread, or one that `flat_groups` silences, gets zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from mh_train.agent.types import Trajectory
from mh_train.config.schema import FlatGroups, LearnConfig
from mh_train.learn.estimators import BATCH_ESTIMATORS, ESTIMATORS, Advantage, Estimate
from mh_train.plugins import load_named


def compute_advantages(
    trajectories: Sequence[Trajectory], config: LearnConfig
) -> tuple[list[Advantage], dict[str, float]]:
    """One advantage per trajectory (in input order) and metrics; groups are told apart by `Trajectory.group`.

    `flat_groups` rules groups whose outcomes are all equal: `keep` normalises whatever spread the format reward leaves
    (the paper), `drop` gives them zeros, `outcome_only` takes every advantage from the outcome part alone. Estimators
    over the whole batch compare groups with each other, so that only `drop` silences a group there.
    """
    groups: dict[int, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        groups.setdefault(trajectory.group, []).append(index)
    outcomes = [_outcome(trajectory) for trajectory in trajectories]
    rewards = outcomes if config.flat_groups is FlatGroups.outcome_only else [t.reward for t in trajectories]
    estimate, whole = _choose(config)
    advantages: list[Advantage] = [0.0] * len(trajectories)
    counted: list[int] = []
    flat = zero = 0
    for members in groups.values():
        no_outcome_spread = _equal([outcomes[index] for index in members])
        no_spread = not whole and _equal([rewards[index] for index in members])
        silent = no_spread or (no_outcome_spread and config.flat_groups is FlatGroups.drop)
        flat, zero = flat + no_outcome_spread, zero + silent
        if silent:
            continue
        counted += members
        if not whole:
            group, theirs = [trajectories[index] for index in members], [rewards[index] for index in members]
            for index, value in zip(members, estimate(group, theirs, config), strict=True):
                advantages[index] = value
    if whole and counted:
        values = estimate([trajectories[index] for index in counted], [rewards[index] for index in counted], config)
        for index, value in zip(counted, values, strict=True):
            advantages[index] = value
    count = max(1, len(groups))
    return advantages, {"learn/frac_flat_groups": flat / count, "learn/frac_zero_std": zero / count}


def _choose(config: LearnConfig) -> tuple[Estimate, bool]:
    """The estimator, and whether it takes all groups together."""
    if config.estimator_function:
        return load_named(config.estimator_function, "learn.estimator_function"), False
    whole = config.estimator.value in BATCH_ESTIMATORS
    return (BATCH_ESTIMATORS if whole else ESTIMATORS)[config.estimator.value], whole


def _equal(values: Sequence[float]) -> bool:
    return min(values) == max(values)


def _outcome(trajectory: Trajectory) -> float:
    if "outcome" not in trajectory.reward_parts:
        raise ValueError(
            f"Trajectory {trajectory.id} has no reward part 'outcome'; score it before computing advantages."
        )
    return trajectory.reward_parts["outcome"]
