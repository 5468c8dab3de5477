"""What each evaluation mode changes, and that it changes nothing else."""

import asyncio

import pytest

from mh_train.agent.types import MemoryHit, MemoryQuery
from mh_train.config.schema import MemoryConfig, Trigger, Use
from mh_train.evaluate.modes import MODES, AskedAs, mode_of
from mh_train.evaluate.statistics import EvaluationError

SOURCES = {"m1": "kitchen with a toaster", "m2": "kitchen with a stove", "m3": "a bathroom"}
HITS = tuple(MemoryHit(i, f"memory {i}", state, score=0.5) for i, state in sorted(SOURCES.items())[:2])
QUERY = MemoryQuery("bread", "alfworld", "t1", "pick", "take bread", "a kitchen")


class Reader:
    """A bank that always finds the same two records."""

    async def retrieve(self, query):
        return HITS


def hits_in(name, seed=0, query=QUERY, sources=SOURCES):
    reader = mode_of(name, MemoryConfig()).wrap(Reader(), sources, seed)
    return tuple(asyncio.run(reader.retrieve(query)))


@pytest.mark.parametrize(
    "name, use, trigger",
    [
        ("memory", Use.reconstruct, Trigger.agentic),
        ("none", Use.none, Trigger.off),
        ("replay", Use.replay, Trigger.agentic),
        ("empty", Use.reconstruct, Trigger.agentic),
        ("external", Use.external, Trigger.agentic),
        ("source_removed", Use.reconstruct, Trigger.agentic),
        ("source_random", Use.reconstruct, Trigger.agentic),
    ],
)
def test_use_and_trigger_of_every_mode(name, use, trigger):
    mode = mode_of(name, MemoryConfig())
    assert (mode.use, mode.trigger) == (use, trigger)


def test_every_mode_is_tested_above():
    assert set(MODES) == {"memory", "none", "replay", "empty", "external", "source_removed", "source_random"}


def test_a_run_keeps_its_own_use_and_trigger():
    mode = mode_of("memory", MemoryConfig(use=Use.replay, trigger=Trigger.always))
    assert (mode.use, mode.trigger) == (Use.replay, Trigger.always)
    assert mode_of("replay", MemoryConfig(trigger=Trigger.always)).trigger is Trigger.always


def test_a_run_without_memory_can_be_given_one():
    mode = mode_of("memory", MemoryConfig(use=Use.none, trigger=Trigger.off))
    assert (mode.use, mode.trigger) == (Use.reconstruct, Trigger.agentic)


def test_an_unknown_mode_is_refused_with_the_known_ones():
    with pytest.raises(EvaluationError, match="memory, none, replay"):
        mode_of("magic", MemoryConfig())


def test_modes_that_leave_hits_alone():
    assert all(hits_in(name) == HITS for name in ("memory", "replay", "external"))


def test_empty_and_none_find_nothing():
    assert hits_in("empty") == hits_in("none") == ()


def test_source_removed_blanks_the_state_and_keeps_the_rest():
    assert [(h.record_id, h.memory, h.source_state, h.score) for h in hits_in("source_removed")] == [
        ("m1", "memory m1", "", 0.5),
        ("m2", "memory m2", "", 0.5),
    ]


def test_source_random_borrows_another_records_state_repeatably():
    first = hits_in("source_random")
    assert first == hits_in("source_random")
    assert all(h.source_state in SOURCES.values() and h.source_state != SOURCES[h.record_id] for h in first)
    assert [h.memory for h in first] == ["memory m1", "memory m2"]
    drawn = {hits_in("source_random", seed=s)[0].source_state for s in range(20)}
    assert drawn == {SOURCES["m2"], SOURCES["m3"]}


def test_source_random_with_a_single_record_has_nothing_to_borrow():
    assert hits_in("source_random", sources={"m1": "x"})[0].source_state == ""


def test_a_bank_of_another_benchmark_is_asked_in_its_own_name():
    class Strict:
        async def retrieve(self, query):
            return HITS if query.env == "webshop" else ()

    assert asyncio.run(Strict().retrieve(QUERY)) == ()
    assert asyncio.run(AskedAs(Strict(), "webshop").retrieve(QUERY)) == HITS
