"""The planner's promises, for any lengths, budget and number of ranks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mh_train.learn.pack import plan

LENGTHS = st.lists(st.integers(1, 300), max_size=60)


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 400), st.integers(1, 5))
def test_every_row_once_equal_counts_and_within_budget(lengths: list[int], budget: int, world: int):
    ranks = plan(lengths, budget, world)
    assert len(ranks) == world and len({len(bins) for bins in ranks}) == 1
    assert sorted(row for bins in ranks for members in bins for row in members) == list(range(len(lengths)))
    for members in (members for bins in ranks for members in bins):
        assert len(members) <= 1 or sum(lengths[row] for row in members) <= budget
    assert ranks == plan(list(lengths), budget, world)


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 400), st.integers(1, 5))
def test_empty_bins_only_when_rows_run_out(lengths: list[int], budget: int, world: int):
    bins = [members for rank in plan(lengths, budget, world) for members in rank]
    empty = sum(not members for members in bins)
    assert empty < world
    assert not empty or all(len(members) <= 1 for members in bins)


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 400))
def test_bins_are_at_most_twice_the_least_possible(lengths: list[int], budget: int):
    """First-fit decreasing opens a new bin only when the others are more than half full."""
    bins = plan(lengths, budget, 1)[0]
    small = [members for members in bins if sum(lengths[row] for row in members) <= budget]
    assert len(small) <= 2 * sum(lengths) / budget + 1


@pytest.mark.parametrize("world", [2, 3, 4])
def test_loads_are_balanced(world: int):
    lengths = [60 + 37 * i % 100 for i in range(256)]
    loads = [sum(lengths[row] for members in bins for row in members) for bins in plan(lengths, 2000, world)]
    assert max(loads) <= 1.2 * sum(loads) / world


def test_one_row_longer_than_the_budget_has_a_bin_of_its_own():
    assert plan([5, 900, 5], 100, 1) == [[[1], [0, 2]]]


def test_no_rows_no_bins():
    assert plan([], 100, 3) == [[], [], []]
