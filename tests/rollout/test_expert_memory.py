"""What the expert remembers: the likest records of other tasks, each memory once; near misses where it must reject."""

import asyncio

import pytest

from mh_train.agent.types import MemoryQuery
from mh_train.memory.records import Provenance, Record
from mh_train.rollout.expert import ExpertMemory, Shelf


def record(number: int, situation: str, content: str) -> Record:
    task = Provenance(task=f"t{number}")
    return Record(f"r{number}", "toy", "find", content, situation=situation, provenance=(task,))


SHELF = Shelf(
    [
        record(0, "red mug", "in the cabinet"),
        record(1, "red mug", "in the cabinet"),
        record(2, "red mug", "on the shelf"),
        record(3, "red apple", "in the fridge"),
        record(4, "blue book", "on the desk"),
    ]
)
QUERY = MemoryQuery("red mug", "toy", "other", "find", "", "")


@pytest.mark.parametrize(
    ("recall", "k", "found"),
    [
        ("relevant", 3, ["r0", "r2", "r3"]),
        ("irrelevant", 1, ["r3"]),
        ("irrelevant", 5, ["r3", "r4"]),
        ("nothing", 5, []),
    ],
)
def test_memories_are_those_that_a_bank_would_find(recall, k, found):
    assert [hit.record_id for hit in asyncio.run(ExpertMemory(SHELF, k, recall).retrieve(QUERY))] == found


def test_a_task_is_not_told_what_it_taught():
    asked = MemoryQuery("red mug", "toy", "t0", "find", "", "")
    assert [found.id for _, found in SHELF.rank(asked)] == ["r1", "r2", "r3", "r4"]
