"""Advantages of groups of trajectories (SPEC 3)."""

import math
from itertools import pairwise
from statistics import fmean, pstdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mh_train.agent.types import Trajectory, Turn
from mh_train.config.schema import Estimator, FlatGroups, LearnConfig
from mh_train.learn.advantage import ESTIMATORS, compute_advantages


def group(
    outcomes: list[float], formats: list[float] | None = None, number: int = 0, turns: int = 1
) -> list[Trajectory]:
    made = []
    for index, outcome in enumerate(outcomes):
        style = formats[index] if formats else 1.0
        one = Trajectory(f"{number}-{index}", "toy", "train", "task", "type", "goal", number, index)
        one.turns = [Turn("act", 0, (1,), (2,), (-1.0,), "")] * (turns if outcome else 1)
        one.reward_parts = {"outcome": outcome, "format": style}
        one.reward = outcome + 0.1 * style
        made.append(one)
    return made


def test_grpo_uses_the_population_of_trajectories_not_of_turns():
    outcomes = [10.0, 0.0, 0.0, 10.0, 0.0, 0.0, 0.0, 0.0]
    expected = [(o - fmean(outcomes)) / (pstdev(outcomes) + 1e-6) for o in outcomes]
    short, _ = compute_advantages(group(outcomes), LearnConfig())
    long_winners, _ = compute_advantages(group(outcomes, turns=40), LearnConfig())
    assert short == long_winners == pytest.approx(expected)


def test_rloo_compares_with_the_others_and_dr_grpo_does_not_divide():
    rewards = [3.0, 1.0, 2.0, 10.0]
    others = [(sum(rewards) - reward) / 3 for reward in rewards]
    members = group(rewards)
    assert ESTIMATORS["rloo"](members, rewards) == pytest.approx([r - o for r, o in zip(rewards, others, strict=True)])
    assert ESTIMATORS["dr_grpo"](members, rewards) == pytest.approx([r - 4.0 for r in rewards])
    assert ESTIMATORS["rloo"](members[:1], [3.0]) == [0.0]


@settings(deadline=None)
@given(st.lists(st.floats(-20, 20), min_size=1, max_size=9), st.sampled_from(list(Estimator)))
def test_advantages_of_a_group_sum_to_zero_and_keep_the_order(rewards: list[float], estimator: Estimator):
    values = ESTIMATORS[estimator.value](group(rewards), rewards)
    assert math.fsum(values) == pytest.approx(0, abs=1e-6)
    ranked = sorted(range(len(rewards)), key=lambda i: rewards[i])
    assert all(values[a] <= values[b] + 1e-9 for a, b in pairwise(ranked))


def test_groups_do_not_mix_and_order_is_that_of_the_input():
    first, second = group([10.0, 0.0], number=0), group([0.0, 10.0], number=1)
    values, _ = compute_advantages([first[0], second[0], first[1], second[1]], LearnConfig())
    assert values == pytest.approx([1, -1, -1, 1], abs=1e-5)


FORMAT_NOISE = [1.0, 1.0, 1.0, 0.9]


@pytest.mark.parametrize("rule", list(FlatGroups))
def test_what_groups_without_outcome_spread_contribute(rule: FlatGroups):
    failed, mixed = group([0.0] * 4, FORMAT_NOISE, 0), group([10.0, 0.0, 0.0, 10.0], FORMAT_NOISE, 1)
    values, metrics = compute_advantages([*failed, *mixed], LearnConfig(flat_groups=rule))
    if rule is FlatGroups.keep:  # a hundredth of a reward becomes a full-size advantage: the paper's rule
        assert values[3] == pytest.approx(-math.sqrt(3), rel=1e-3)
    else:
        assert values[:4] == [0.0] * 4
    format_matters = values[4] != pytest.approx(values[7], abs=1e-9)
    assert format_matters == (rule is not FlatGroups.outcome_only)
    assert metrics["learn/frac_flat_groups"] == 0.5
    assert metrics["learn/frac_zero_std"] == (0.0 if rule is FlatGroups.keep else 0.5)


def test_a_group_of_equal_rewards_is_silent():
    values, metrics = compute_advantages(group([10.0] * 3, [0.3] * 3), LearnConfig())
    assert values == [0.0] * 3 and metrics["learn/frac_zero_std"] == 1.0
    assert compute_advantages([], LearnConfig())[0] == []


def test_an_unscored_trajectory_is_an_error():
    members = group([1.0, 0.0])
    members[1].reward_parts = {}
    with pytest.raises(ValueError, match="0-1 has no reward part 'outcome'"):
        compute_advantages(members, LearnConfig())
