"""Advantages of groups of trajectories (SPEC 3)."""

import math
from statistics import fmean, pstdev

import pytest

from mh_train.agent.types import Step, Trajectory, Turn
from mh_train.config.schema import Estimator, FlatGroups, LearnConfig
from mh_train.learn.advantage import compute_advantages
from mh_train.learn.rows import rows_from_trajectories


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


def test_an_estimator_over_the_batch_compares_groups_and_only_drop_silences_one():
    lost, mixed = group([0.0, 0.0], number=0), group([10.0, 0.0], number=1)
    config = LearnConfig(estimator=Estimator.reinforce_pp, flat_groups=FlatGroups.outcome_only)
    values, metrics = compute_advantages([*lost, *mixed], config)
    std = pstdev([0.0, 0.0, 10.0, 0.0])
    assert values == pytest.approx([-2.5 / std, -2.5 / std, 7.5 / std, -2.5 / std], rel=1e-5)
    assert metrics == {"learn/frac_flat_groups": 0.5, "learn/frac_zero_std": 0.0}
    config.flat_groups = FlatGroups.drop
    values, _ = compute_advantages([*lost, *mixed], config)
    assert values == pytest.approx([0.0, 0.0, 1.0, -1.0], abs=1e-5)


def test_values_per_turn_go_to_the_rows_of_their_turns():
    members = group([10.0, 0.0], turns=3)
    for member in members:
        member.steps = [Step("hall", ()), Step("desk", ())]
        member.turns = [Turn("act", step, (1,), (2,), (-1.0,), "") for step in (0, 0, 1)]
    values, _ = compute_advantages(members, LearnConfig(estimator=Estimator.gigpo))
    rows = rows_from_trajectories(members, values)
    assert [row.advantage for row in rows] == pytest.approx([2.0] * 3 + [-2.0] * 3, rel=1e-4)


def second_best(group, rewards, config):
    """A_i = R_i minus the second best reward of the group."""
    return [reward - sorted(rewards)[-2] for reward in rewards]


def test_an_estimator_of_ones_own_is_a_function_by_name():
    config = LearnConfig(estimator_function=f"{__name__}:second_best")
    values, _ = compute_advantages(group([10.0, 0.0, 4.0]), config)
    assert values == pytest.approx([6.0, -4.0, 0.0])
    with pytest.raises(ValueError, match=r"learn\.estimator_function=nowhere:f cannot be imported"):
        compute_advantages(group([10.0, 0.0]), LearnConfig(estimator_function="nowhere:f"))
