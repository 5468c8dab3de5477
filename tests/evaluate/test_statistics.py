"""Statistics against hand-computed values and SciPy."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mh_train.evaluate.statistics import (
    EvaluationError,
    TaskValues,
    benjamini_hochberg,
    holm,
    mean_std,
    paired_bootstrap,
    wilson,
)


def values(numbers, panel="p"):
    return TaskValues(panel, {f"t{i:03d}": float(x) for i, x in enumerate(numbers)})


def test_mean_and_sample_deviation_over_seeds():
    assert mean_std([0.5, 0.7, 0.9]) == (pytest.approx(0.7), pytest.approx(0.2))
    assert mean_std([0.5]) == (0.5, None)
    with pytest.raises(EvaluationError, match="at least one seed"):
        mean_std([])


@pytest.mark.parametrize("k, n", [(0, 10), (3, 10), (10, 10), (114, 134), (1, 1)])
def test_wilson_interval_is_scipys(k, n):
    interval = stats.binomtest(k, n).proportion_ci(method="wilson")
    assert wilson(k / n, n) == pytest.approx((interval.low, interval.high), abs=1e-12)


def test_wilson_of_no_tasks_is_refused():
    with pytest.raises(EvaluationError):
        wilson(0.0, 0)


def test_bootstrap_interval_is_close_to_scipys():
    rng = random.Random(3)
    a, b = ([float(rng.random() < share) for _ in range(120)] for share in (0.8, 0.5))
    ours = paired_bootstrap(values(a), values(b))
    scipys = stats.bootstrap(
        (np.array(a) - np.array(b),),
        np.mean,
        n_resamples=10_000,
        method="percentile",
        random_state=np.random.default_rng(1),
    ).confidence_interval
    assert ours.difference == pytest.approx(np.mean(a) - np.mean(b))
    assert (ours.low, ours.high) == pytest.approx((scipys.low, scipys.high), abs=0.01)
    assert ours.p_value < 0.001 and ours.tasks == 120
    difference = np.array(a) - np.array(b)
    assert ours.effect == pytest.approx(difference.mean() / difference.std(ddof=1))


def test_bootstrap_p_is_near_the_paired_t_test_for_a_small_difference():
    rng = np.random.default_rng(5)
    a, b = rng.normal(0.15, 1, 200), rng.normal(0, 1, 200)
    assert paired_bootstrap(values(a), values(b)).p_value == pytest.approx(stats.ttest_rel(a, b).pvalue, abs=0.02)


def test_equal_modes_differ_by_nothing():
    same = paired_bootstrap(values([0, 1, 1, 0]), values([0, 1, 1, 0]))
    assert (same.difference, same.low, same.high, same.p_value, same.effect) == (0, 0, 0, 1.0, 0.0)
    constant = paired_bootstrap(values([1, 1, 1]), values([0, 0, 0]))
    assert constant.difference == 1.0 and constant.effect is None and constant.p_value == pytest.approx(2 / 10_001)


def test_the_same_seed_gives_the_same_numbers_whatever_the_order_of_tasks():
    a, b = values([0, 1, 1, 0, 1]), values([0, 0, 1, 0, 0])
    backwards = TaskValues("p", dict(reversed(a.values.items())))
    assert paired_bootstrap(a, b, seed=4) == paired_bootstrap(backwards, b, seed=4)
    assert paired_bootstrap(a, b, seed=4) != paired_bootstrap(a, b, seed=5)


def test_different_panels_are_not_compared():
    with pytest.raises(EvaluationError, match="same panel"):
        paired_bootstrap(values([1, 0], "p1"), values([1, 0], "p2"))
    with pytest.raises(EvaluationError, match="same panel"):
        paired_bootstrap(values([1, 0]), values([1, 0, 1]))


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.9]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_corrections_agree_with_scipy_and_keep_the_order(p_values):
    assert benjamini_hochberg(p_values) == pytest.approx(list(stats.false_discovery_control(p_values)), abs=1e-12)
    adjusted = holm(p_values)
    for p, q, h in zip(p_values, benjamini_hochberg(p_values), adjusted, strict=True):
        assert p <= q + 1e-12 and q <= h + 1e-12 and not math.isnan(h)


def test_no_p_values_no_corrections():
    assert benjamini_hochberg([]) == [] and holm([]) == []
