"""What an episode (or a turn) is worth: GRPO (MemHarness eq. 7), RLOO, Dr. GRPO, GiGPO, REINFORCE++ (SPEC 3).

Why: the baselines of both papers differ from the method in nothing but this function.
Invariants: an estimator sees trajectories and rewards, never token ids; statistics are over trajectories (GiGPO's step
part: over visits of a state), never over turn rows, so that long episodes do not weigh more.
A further estimator is one function: (trajectories of a group, their rewards, config) -> one value per trajectory, or
one sequence of per-turn values per trajectory. Runs name it by `learn.estimator_function`; here it would be in
`ESTIMATORS` (one group at a time) or `BATCH_ESTIMATORS` (all groups together) and in `config.schema.Estimator`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum, sqrt

from mh_train.agent.types import Trajectory
from mh_train.config.schema import LearnConfig

Advantage = float | Sequence[float]
Estimate = Callable[[Sequence[Trajectory], Sequence[float], LearnConfig], list[Advantage]]
EPSILON = 1e-6


def grpo(group: Sequence[Trajectory], rewards: Sequence[float], config: LearnConfig) -> list[Advantage]:
    """A_i = (R_i - mean) / (std + 1e-6) with the population's standard deviation."""
    return list(normalised(rewards))


def rloo(group: Sequence[Trajectory], rewards: Sequence[float], config: LearnConfig) -> list[Advantage]:
    """A_i = R_i - mean of the other G - 1 rewards (arXiv 2402.14740); 0 in a group of one."""
    others = len(rewards) - 1
    return [value * len(rewards) / others if others else 0.0 for value in centred(rewards)]


def dr_grpo(group: Sequence[Trajectory], rewards: Sequence[float], config: LearnConfig) -> list[Advantage]:
    """A_i = R_i - mean, without the division by the spread (arXiv 2503.20783)."""
    return list(centred(rewards))


def gigpo(group: Sequence[Trajectory], rewards: Sequence[float], config: LearnConfig) -> list[Advantage]:
    """A_E + w A_S per turn (arXiv 2505.10978): GRPO's advantage of the episode, and how well the episode went on from
    this state compared with every other visit of the same state in the group.

    States are the same when their observations are (after white space is collapsed). A visit of step t of an episode
    with T steps has the return gamma^(T-1-t) R; returns are normalised over the visits of a state, and a state visited
    once adds nothing. Turns before the same step share its visit; `learn.step_weight` is w, `learn.step_discount`
    gamma."""
    visits: dict[str, list[tuple[int, int]]] = {}
    for member, trajectory in enumerate(group):
        for step, state in enumerate(trajectory.steps):
            visits.setdefault(" ".join(state.observation.split()), []).append((member, step))
    relative: dict[tuple[int, int], float] = {}
    for same in visits.values():
        returns = [
            rewards[member] * config.step_discount ** (len(group[member].steps) - 1 - step) for member, step in same
        ]
        relative.update(zip(same, normalised(returns), strict=True))
    return [
        [episode + config.step_weight * relative.get((member, turn.step), 0.0) for turn in trajectory.turns]
        for member, (trajectory, episode) in enumerate(zip(group, normalised(rewards), strict=True))
    ]


def reinforce_pp(batch: Sequence[Trajectory], rewards: Sequence[float], config: LearnConfig) -> list[Advantage]:
    """A_i = (R_i - mean) / (std + 1e-6) over the whole update instead of the group (REINFORCE++, arXiv 2501.03262).

    The KL to the reference stays in the loss (`learn.kl`), as for every estimator here; the original takes it off the
    reward."""
    return list(normalised(rewards))


ESTIMATORS: dict[str, Estimate] = {"grpo": grpo, "rloo": rloo, "dr_grpo": dr_grpo, "gigpo": gigpo}
BATCH_ESTIMATORS: dict[str, Estimate] = {"reinforce_pp": reinforce_pp}


def centred(rewards: Sequence[float]) -> list[float]:
    """Each value minus their mean."""
    mean = fsum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def normalised(rewards: Sequence[float]) -> list[float]:
    """Each value minus their mean, over their population standard deviation + 1e-6."""
    offsets = centred(rewards)
    std = sqrt(fsum(value * value for value in offsets) / len(offsets))
    return [value / (std + EPSILON) for value in offsets]
