"""Every estimator against advantages computed by hand."""

import math
from itertools import pairwise
from statistics import fmean, pstdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mh_train.agent.types import Step, Trajectory, Turn
from mh_train.config.schema import Estimator, LearnConfig
from mh_train.learn.estimators import BATCH_ESTIMATORS, ESTIMATORS

LEARN = LearnConfig()


def episode(*states, turns=None):
    """An episode through these states with one act turn at each."""
    made = Trajectory("t", "toy", "train", "task", "type", "goal", 0, 0)
    made.steps = [Step(state, ()) for state in states]
    steps = range(len(states)) if turns is None else turns
    made.turns = [Turn("act", step, (1,), (2,), (-1.0,), "") for step in steps]
    return made


def test_every_estimator_of_the_config_is_in_exactly_one_table():
    assert {one.value for one in Estimator} == set(ESTIMATORS) ^ set(BATCH_ESTIMATORS)


def test_grpo_divides_by_the_population_deviation():
    rewards = [10.0, 0.0, 0.0, 0.0]
    assert ESTIMATORS["grpo"]([], rewards, LEARN) == pytest.approx([math.sqrt(3), *[-1 / math.sqrt(3)] * 3], rel=1e-6)


def test_rloo_compares_with_the_others_and_dr_grpo_does_not_divide():
    rewards = [3.0, 1.0, 2.0, 10.0]
    others = [(sum(rewards) - reward) / 3 for reward in rewards]
    expected = [r - o for r, o in zip(rewards, others, strict=True)]
    assert ESTIMATORS["rloo"]([], rewards, LEARN) == pytest.approx(expected)
    assert ESTIMATORS["dr_grpo"]([], rewards, LEARN) == pytest.approx([-1.0, -3.0, -2.0, 6.0])
    assert ESTIMATORS["rloo"]([], [3.0], LEARN) == [0.0]


def test_reinforce_pp_normalises_over_all_groups_at_once():
    rewards = [10.0, 0.0, 10.0, 10.0]
    expected = [(r - fmean(rewards)) / (pstdev(rewards) + 1e-6) for r in rewards]
    assert BATCH_ESTIMATORS["reinforce_pp"]([], rewards, LEARN) == pytest.approx(expected)


def test_gigpo_by_hand():
    """Won in two steps, lost in three; `hall` is visited by both (by the loser twice), `desk` by the winner alone."""
    won, lost = episode("hall", "desk"), episode("hall", " hall\n", "yard")
    values = ESTIMATORS["gigpo"]([won, lost], [10.0, 1.0], LearnConfig(step_weight=0.5, step_discount=0.9))
    returns = [10.0 * 0.9, 1.0 * 0.9**2, 1.0 * 0.9]  # winner at step 0, loser at steps 0 and 1
    mean, std = fmean(returns), pstdev(returns)
    step = [(value - mean) / std for value in returns]
    assert values[0] == pytest.approx([1 + 0.5 * step[0], 1.0], rel=1e-5)
    assert values[1] == pytest.approx([-1 + 0.5 * step[1], -1 + 0.5 * step[2], -1.0], rel=1e-5)


def test_gigpo_gives_a_question_and_its_action_the_same_visit_and_a_turn_after_the_end_none():
    won, lost = episode("hall", turns=(0, 0, 0)), episode("hall", turns=(0, 1))
    values = ESTIMATORS["gigpo"]([won, lost], [10.0, 0.0], LEARN)
    assert values[0] == pytest.approx([2.0] * 3, rel=1e-5) and values[1] == pytest.approx([-2.0, -1.0], rel=1e-5)


def test_gigpo_without_its_step_part_is_grpo():
    members = [episode("a", "b"), episode("a", "c"), episode("a")]
    whole = ESTIMATORS["grpo"](members, [10.0, 0.0, 4.0], LEARN)
    per_turn = ESTIMATORS["gigpo"](members, [10.0, 0.0, 4.0], LearnConfig(step_weight=0.0))
    assert [values[0] for values in per_turn] == whole


@settings(deadline=None)
@given(
    st.lists(st.floats(-20, 20), min_size=1, max_size=9),
    st.sampled_from([name for name in (*ESTIMATORS, *BATCH_ESTIMATORS) if name != "gigpo"]),
)
def test_advantages_sum_to_zero_and_keep_the_order(rewards: list[float], name: str):
    values = (ESTIMATORS | BATCH_ESTIMATORS)[name]([episode("a")] * len(rewards), rewards, LEARN)
    assert math.fsum(values) == pytest.approx(0, abs=1e-6)
    ranked = sorted(range(len(rewards)), key=lambda i: rewards[i])
    assert all(values[a] <= values[b] + 1e-9 for a, b in pairwise(ranked))
