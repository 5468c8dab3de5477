"""One update of the bank: usage, dedup, prune, budget."""

import asyncio

import pytest
from memory_parts import Counting, PlainPrompts, Writer, add, entry, open_bank, read_bank, record, trajectory

from mh_train.config.schema import DedupConfig, DistillConfig, PruneConfig
from mh_train.memory.bank import JOURNAL
from mh_train.memory.curate import curate, write
from mh_train.memory.distill import make_record
from mh_train.memory.records import Usage
from mh_train.memory.signature import entity_words
from mh_train.memory.usage import use


def update(bank, trajectories, answer=lambda turn: "", number=0):
    return asyncio.run(
        curate(bank, trajectories, Writer(answer), Counting(), PlainPrompts(), bank.config, seed=0, update=number)
    )


def test_use_counts_once_per_trajectory(tmp_path):
    bank = open_bank(tmp_path)
    add(bank, record("m", id="m"))
    five_times = trajectory("a", used=[("m", "accepted")] * 5)
    lost = trajectory("b", won=False, used=[("m", "rejected"), ("m", "accepted")])
    refused = trajectory("c", used=[("m", "rejected")])
    episodes = [five_times, lost, refused, trajectory("d")]
    metrics = use(bank, episodes, {t.id: t.won for t in episodes}, update=7)
    assert bank.records["m"].usage == Usage(3, 2, 2, 1, 1, 7)
    assert bank.records["m"].usage.utility == pytest.approx(3 / 5)
    assert metrics["memory/used_records"] == 1 and metrics["memory/unknown_hits"] == 0


def test_a_hit_of_another_bank_is_counted_not_fatal(tmp_path):
    bank = open_bank(tmp_path)
    assert use(bank, [trajectory("a", used=[("gone", "accepted")])], {"a": True}, 0)["memory/unknown_hits"] == 1


def written(bank, *pairs, threshold=0.85):
    """Write (goal, memory) pairs learnt where drawers, cabinets and bread exist."""
    rooms = ["a kitchen"]
    episodes = [trajectory(f"t{i}", goal=goal, observations=rooms) for i, (goal, _) in enumerate(pairs)]
    names = entity_words(episodes)
    made = [
        make_record(t, "looking for food", memory, 0, "r", names)
        for t, (_, memory) in zip(episodes, pairs, strict=True)
    ]
    return write(bank, made, threshold, 0)[1]


def test_a_near_copy_is_skipped(tmp_path):
    bank = open_bank(tmp_path)
    metrics = written(bank, ("find bread", "the bread is in drawer 1"), ("find bread", "bread is in the drawer 1"))
    assert metrics == {"memory/added": 1, "memory/duplicates": 1, "memory/conflicts": 0}


def test_a_near_copy_with_another_action_is_a_conflict_not_a_duplicate(tmp_path):
    bank = open_bank(tmp_path)
    metrics = written(
        bank,
        ("find bread", "the bread is in the drawer 1"),
        ("find bread", "the bread is not in the drawer 1"),
        threshold=0.8,
    )
    assert metrics == {"memory/added": 2, "memory/duplicates": 0, "memory/conflicts": 1}
    one, two = bank.records.values()
    assert one.conflict_links == (two.id,) and two.conflict_links == (one.id,)


def test_the_same_words_of_another_environment_or_without_threshold_are_kept(tmp_path):
    bank = open_bank(tmp_path)
    pairs = [("find bread", "the bread is in drawer 1")] * 2
    assert written(bank, *pairs, threshold=None)["memory/added"] == 2
    other = open_bank(tmp_path / "other", dedup=DedupConfig(write=0.5))
    add(other, record("the bread is in drawer 1", env="webshop"))
    assert written(other, pairs[0])["memory/added"] == 1


def test_useless_records_are_pruned_on_schedule_and_pinned_ones_stay(tmp_path):
    bank = open_bank(tmp_path, write=False, prune=PruneConfig(every=2, utility=0.3, min_uses=3))
    useless = {"usage": Usage(c_use=3)}
    add(
        bank,
        record("bad", id="bad", **useless),
        record("pinned", id="pinned", pinned=True, **useless),
        record("new", id="new"),
    )
    add(
        bank,
        record("good", id="good", usage=Usage(c_use=9, c_succ=3)),
        record("young", id="young", usage=Usage(c_use=2)),
    )
    assert "memory/pruned" not in update(bank, [], number=1)
    assert update(bank, [], number=2)["memory/pruned"] == 1
    assert bank.records["bad"].state == "archived"
    assert "utility 0.200 below 0.3 after 3 uses" in bank.records["bad"].reason
    assert {r.id for r in bank.view().records} == {"pinned", "new", "good", "young"}


def test_by_default_pruning_falls_on_every_twentieth_update(tmp_path):
    bank = open_bank(tmp_path, write=False)
    fell_on = [number for number in range(1, 45) if "memory/pruned" in update(bank, [], number=number)]
    assert fell_on == [20, 40]


def test_the_budget_holds_and_the_weakest_then_oldest_go(tmp_path):
    bank = open_bank(tmp_path, write=False, budget=2)
    add(
        bank,
        record("weak", id="weak", usage=Usage(c_use=2)),
        record("old", id="old"),
        record("new", id="new", update=5),
    )
    add(bank, record("strong", id="strong", usage=Usage(c_use=2, c_succ=2)), update=5)
    metrics = update(bank, [], number=6)
    assert {r.id for r in bank.view().records} == {"strong", "new"}
    assert (
        metrics["memory/archived_for_budget"] == 2 and metrics["memory/active"] == 2 and metrics["memory/archived"] == 2
    )


def test_an_update_from_usage_to_journal(tmp_path):
    bank = open_bank(tmp_path, distill=DistillConfig(fraction=1.0))
    first = update(
        bank, [trajectory("a"), trajectory("b", won=False)], lambda t: entry("a room", f"memory of {t.observation.id}")
    )
    assert first["memory/added"] == 2 and first["memory/active"] == 2
    used = sorted(bank.records)[0]
    second = update(bank, [trajectory("c", used=[(used, "accepted")])], number=1)
    assert second["memory/used_records"] == 1 and second["memory/distill_unparsed"] == 1
    assert read_bank(tmp_path).digest() == bank.digest()


def test_equal_runs_write_equal_journals(tmp_path):
    for name in ("one", "two"):
        bank = open_bank(tmp_path / name)
        episodes = [trajectory(f"e{i}", won=i % 3 == 0) for i in range(10)]
        update(bank, episodes, lambda t: entry("a room", f"memory {t.noise}"))
    assert (tmp_path / "one" / JOURNAL).read_bytes() == (tmp_path / "two" / JOURNAL).read_bytes()


def test_a_policy_without_memory_still_counts_but_writes_nothing(tmp_path):
    bank = open_bank(tmp_path, write=False)
    metrics = update(bank, [trajectory("a")], lambda turn: entry("s", "m"))
    assert metrics["memory/total"] == 0 and "memory/added" not in metrics
