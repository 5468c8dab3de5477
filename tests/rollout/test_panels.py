"""Panels are the same everywhere; a cursor continues where it stood."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.base import Task
from envs.toy import ToyEnv
from mh_train.rollout.panels import RolloutError, TaskCursor, make_panel

TRAIN = make_panel(ToyEnv, "train", {})


class Twins(ToyEnv):
    """Two tasks with one id."""

    @classmethod
    def tasks(cls, split, **options):
        return [Task("a", "toy", split, "fetch")] * 2 if options.get("n", 2) else []


def test_a_panel_is_the_split_in_canonical_order():
    assert TRAIN.tasks == tuple(ToyEnv.tasks("train"))
    assert TRAIN.name == "train"
    assert TRAIN.hash == make_panel(ToyEnv, "train", {}).hash


def test_the_hash_covers_split_ids_and_their_order():
    hashes = [
        TRAIN.hash,
        make_panel(ToyEnv, "train", {}, limit=23).hash,
        make_panel(ToyEnv, "train", {}, seed=1).hash,
        make_panel(ToyEnv, "valid_seen", {}).hash,
        make_panel(ToyEnv, "valid_unseen", {}).hash,
    ]
    assert len(set(hashes)) == 5
    assert TRAIN.hash == "3c0bba0e6ef16c2d", "panel hashes are stored with results: changing them orphans those"


def test_a_seeded_panel_is_a_sample_without_replacement_and_the_start_of_a_longer_one():
    short, whole = make_panel(ToyEnv, "train", {}, limit=7, seed=3), make_panel(ToyEnv, "train", {}, seed=3)
    assert short.tasks == whole.tasks[:7]
    assert sorted(task.id for task in whole.tasks) == [task.id for task in TRAIN.tasks]
    assert whole.tasks != TRAIN.tasks


def test_an_empty_panel_and_twin_ids_are_refused():
    with pytest.raises(RolloutError, match=r"panel train of toy is empty; check env\.options"):
        make_panel(Twins, "train", {"n": 0})
    with pytest.raises(RolloutError, match="a task id twice"):
        make_panel(Twins, "train", {})


def test_every_epoch_meets_every_task_once_in_an_order_of_its_own():
    cursor = TaskCursor(TRAIN, seed=0)
    epochs = [[task.id for task in cursor.next(24)] for _ in range(3)]
    assert all(sorted(epoch) == [task.id for task in TRAIN.tasks] for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


@given(st.lists(st.integers(0, 60), max_size=8), st.integers(0, 100), st.integers(0, 50))
def test_a_restored_cursor_continues_exactly(draws, seed, more):
    cursor, fresh = TaskCursor(TRAIN, seed), TaskCursor(TRAIN, seed)
    for n in draws:
        cursor.next(n)
    fresh.load_state_dict(cursor.state_dict())
    assert fresh.next(more) == cursor.next(more)


@given(st.lists(st.integers(0, 30), max_size=8))
def test_the_order_does_not_depend_on_how_it_is_drawn(draws):
    by_parts, at_once = TaskCursor(TRAIN, 4), TaskCursor(TRAIN, 4)
    assert [task for n in draws for task in by_parts.next(n)] == at_once.next(sum(draws))


def test_a_state_of_other_tasks_is_refused():
    state = TaskCursor(TRAIN, 1).state_dict()
    for other in (TaskCursor(TRAIN, 2), TaskCursor(replace(TRAIN, hash="0" * 16), 1)):
        with pytest.raises(RolloutError, match="other training tasks"):
            other.load_state_dict(state)
