"""Effect sizes and named averages against hand-computed values and SciPy."""

import math

import pytest
from scipy import stats

from mh_train.evaluate.effects import cohens_d, cohens_h, macro, micro, odds_ratio, same_panel
from mh_train.evaluate.statistics import EvaluationError

VALUES = {"a": 1.0, "b": 0.0, "c": 1.0, "d": 1.0, "e": 0.5}
TYPES = {"a": "pick", "b": "pick", "c": "pick", "d": "pick", "e": "heat"}


def test_micro_counts_tasks_and_macro_counts_types():
    assert micro(VALUES) == pytest.approx(3.5 / 5)
    assert macro(VALUES, TYPES) == pytest.approx((0.75 + 0.5) / 2)
    with pytest.raises(EvaluationError, match="Task e has no type"):
        macro(VALUES, {task: kind for task, kind in TYPES.items() if task != "e"})


def test_macro_of_the_papers_row_is_its_average():
    row = {"Pick": 87.0, "Look": 78.6, "Clean": 97.0, "Heat": 87.5, "Cool": 71.4, "Pick2": 90.0}
    assert macro(row, {name: name for name in row}) == pytest.approx(85.2, abs=0.06)


def test_results_of_different_panels_are_refused():
    assert same_panel(["p1", "p1"]) == "p1"
    with pytest.raises(EvaluationError, match="p1, p2"):
        same_panel(["p1", "p2"])
    with pytest.raises(EvaluationError, match="none"):
        same_panel([])


def test_cohens_h_by_hand():
    assert cohens_h(1.0, 0.0) == pytest.approx(math.pi)
    assert cohens_h(0.5, 0.25) == pytest.approx(math.pi / 2 - math.pi / 3)
    assert cohens_h(0.25, 0.5) == -cohens_h(0.5, 0.25)
    with pytest.raises(EvaluationError):
        cohens_h(74.0, 0.5)


def test_cohens_d_agrees_with_the_t_statistic():
    a, b = [0.71, 0.74, 0.78, 0.70, 0.76], [0.66, 0.69, 0.70, 0.64]
    t = stats.ttest_ind(a, b, equal_var=True).statistic
    assert cohens_d(a, b) == pytest.approx(t * math.sqrt(1 / len(a) + 1 / len(b)))
    assert cohens_d([1.0, 1.0], [0.0, 0.0]) is None
    with pytest.raises(EvaluationError, match="two values"):
        cohens_d([1.0], [0.0, 1.0])


def test_odds_ratio_is_scipys_sample_odds_ratio():
    ours = odds_ratio(71, 96, 38, 96)
    theirs = stats.contingency.odds_ratio([[71, 25], [38, 58]], kind="sample")
    limits = theirs.confidence_interval(0.95)
    assert ours.ratio == pytest.approx(theirs.statistic)
    assert (ours.low, ours.high) == pytest.approx((limits.low, limits.high))


def test_odds_ratio_with_an_empty_cell_by_hand():
    assert odds_ratio(10, 10, 5, 10).ratio == pytest.approx((10.5 * 5.5) / (0.5 * 5.5))
    with pytest.raises(EvaluationError):
        odds_ratio(3, 2, 1, 2)
