"""Merge, conflict, summarise, retire: single cases, and invariants under random streams."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_parts import add, open_bank, read_bank, record

from mh_train.config.schema import AdmissionConfig, LifecycleConfig, PruneConfig
from mh_train.memory.curate import write
from mh_train.memory.journal import Event
from mh_train.memory.judge import JudgeAnswer
from mh_train.memory.lifecycle import consolidate, decide, similarity
from mh_train.memory.records import Descriptor, Signature, Usage
from mh_train.memory.retention import keep_budget, prune, retire, utility, value
from mh_train.memory.signature import signature
from mh_train.memory.summaries import clusters, summarise

ON, ADMISSION = LifecycleConfig(enabled=True), AdmissionConfig(enabled=True)
ENTITIES = frozenset(["drawer", "cabinet", "fridge", "bread", "egg", "1", "2"])


def made(
    name: str, content: str, *, r=0.8, c=0.8, label="verified_success", goal="put bread in fridge", update=0, **values
):
    """A verified record whose signature is drawn from its text."""
    kind = values.get("type", "procedural_hint")
    drawn = signature(kind, "toy", "pick", content, values.get("applicability", ""), goal, ENTITIES)
    descriptor = Descriptor(r, c, label, update)
    return record(content, id=name, signature=drawn, descriptor=descriptor, quality=r, update=update, **values)


def consolidated(tmp_path, *records, config=ON, admission=ADMISSION):
    bank = open_bank(tmp_path)
    for one in records:
        add(bank, one)
        counts = consolidate(bank, [one.id], config, admission, update=5)
        bank.commit(5)
    return bank, counts


def test_similarity_is_the_cosine_weakened_by_foreign_conditions():
    base = Signature("procedural_hint", "pick", "toy", "look", (), ("bread",))
    assert similarity(0.9, base, base) == pytest.approx(0.9)
    assert similarity(0.9, base, replace(base, condition=("egg",))) == pytest.approx(0.9 * (1 + 1 / 3) / 2)
    assert (
        similarity(0.9, base, replace(base, type="tool_usage"))
        == similarity(0.9, base, replace(base, scope="web"))
        == 0
    )


def test_a_copy_is_merged_and_its_origin_and_usage_kept(tmp_path):
    old = made("old", "bread is in drawer 1", usage=Usage(2, 1, 1, 1, 1, 0))
    copy = made("twin", "the bread is in drawer 1", c=0.9, update=1, task="t9", usage=Usage(1, 1, 1, 0, 1, 3))
    bank, counts = consolidated(tmp_path, old, copy)
    kept, gone = bank.records["old"], bank.records["twin"]
    assert counts["memory/merged"] == 1 and (kept.state, gone.state, gone.superseded_by) == (
        "active",
        "archived",
        "old",
    )
    assert kept.usage == Usage(3, 2, 2, 1, 2, 3) and [p.task for p in kept.provenance] == ["t0", "t9"]
    assert kept.descriptor.confidence == 0.9 and "duplicate" in kept.reason


def test_a_complement_adds_its_condition_and_is_embedded_anew(tmp_path):
    old = made("old", "bread is in the drawer 1", applicability="bread is not in sight")
    more = made("more", "bread is in the drawer 1", applicability="bread missing early in the morning", update=1)
    bank, _ = consolidated(tmp_path, old, more, config=replace(ON, merge=0.5))
    kept = bank.records["old"]
    assert kept.applicability == "bread is not in sight; bread missing early in the morning"
    assert "complement" in kept.reason
    assert bank.state.vectors["old"] @ bank.embedder.encode([kept.key_text()])[0] == pytest.approx(1)


def test_other_advice_for_the_same_case_is_a_conflict_decided_by_label(tmp_path):
    bank, counts = consolidated(
        tmp_path,
        made("a", "the bread is in drawer 1", label="uncertain"),
        made("b", "the bread is in cabinet 1", r=0.7),
    )
    a, b = bank.records["a"], bank.records["b"]
    assert counts["memory/conflicts"] == 1 and (a.state, b.state) == ("archived", "active")
    assert a.conflict_links == ("b",) and b.conflict_links == ("a",) and a.lost_to == ("b",) and b.lost_to == ()
    assert "refuted by b (label)" in a.reason


def test_a_narrow_conflict_only_weighs_the_loser_down(tmp_path):
    bank, _ = consolidated(
        tmp_path, made("a", "the bread is in drawer 1", r=0.8), made("b", "the bread is in cabinet 1", r=0.82)
    )
    assert bank.records["a"].state == bank.records["b"].state == "active"
    assert bank.records["a"].lost_to == ("b",) and bank.view().columns.conflict.tolist() == [1, 0]


def test_advice_about_another_thing_is_no_conflict(tmp_path):
    bank, counts = consolidated(
        tmp_path, made("a", "the bread is in drawer 1"), made("b", "the egg is in drawer 2", goal="heat egg")
    )
    assert counts["memory/conflicts"] == counts["memory/merged"] == 0 and not bank.records["a"].conflict_links


@pytest.mark.parametrize(
    ("better", "worse", "what"),
    [
        ({"label": "verified_success", "r": 0.1}, {"label": "uncertain", "r": 0.9}, "label"),
        ({"r": 0.8, "c": 0.1}, {"r": 0.7, "c": 0.9}, "reward"),
        ({"c": 0.8, "update": 0}, {"c": 0.7, "update": 9}, "confidence"),
        ({"update": 2}, {"update": 1, "usage": Usage(9, 9)}, "recency"),
        ({"usage": Usage(3, 2)}, {"usage": Usage(3, 1)}, "usage"),
    ],
)
def test_conflicts_are_decided_in_the_papers_order(better, worse, what):
    a, b = made("z", "one", **better), made("a", "two", **worse)
    assert decide(a, b, True)[:3] == (a, b, what) == decide(b, a, True)[:3]


def test_without_rewards_confidence_decides_and_guards_are_strongest_when_failure_is_certain():
    a, b = made("a", "x", r=0.9, c=0.5), made("b", "y", r=0.1, c=0.6)
    assert decide(a, b, use_reward=False)[0] is b
    sure = made("g", "x", type="failure_avoidance", label="verified_fail")
    unsure = made("h", "y", type="failure_avoidance", label="uncertain")
    assert decide(sure, unsure, True)[0] is sure


def test_equal_advice_with_another_label_merges_only_when_rewards_are_close(tmp_path):
    words = "the bread is in drawer 1"
    close, _ = consolidated(
        tmp_path / "c", made("a", words, label="uncertain", c=0.9, r=0.70), made("b", words, r=0.72, c=0.8)
    )
    assert close.records["b"].state == "archived" and close.records["a"].descriptor.label == "uncertain"
    far, counts = consolidated(tmp_path / "f", made("a", words, label="uncertain", r=0.5), made("b", words, r=0.9))
    assert counts["memory/conflicts"] == 1 and far.records["a"].state == "archived"


def test_repetition_is_summarised_before_knowledge_goes(tmp_path):
    bank = open_bank(tmp_path)
    add(
        bank,
        *(made(f"m{i}", f"open the drawer first, hint {'abcd'[i]}", task=f"t{i}") for i in range(4)),
        made("other", "heat the egg"),
    )
    counts = asyncio.run(summarise(bank, 3, ON, None, seed=0, update=1))
    bank.commit(1)
    (summary,) = [r for r in bank.records.values() if r.state == "summary"]
    assert counts == {"memory/summaries_made": 1, "memory/summarised": 4}
    assert summary.covers == ("m0", "m1", "m2", "m3") and len(summary.provenance) == 4
    assert {r.id for r in bank.view().records} == {summary.id, "other"}
    assert all(bank.records[name].superseded_by == summary.id for name in summary.covers)
    assert all(r.state == "active" for group in clusters(bank, replace(ON, summarise_from=1)) for r in group)
    assert asyncio.run(summarise(bank, 3, ON, None, 0, 2))["memory/summaries_made"] == 0


def test_a_model_words_the_summary_when_it_can(tmp_path):
    class Answers:
        text = '{"records": [{"title": "T", "content": "Open drawers first.", "applicability": "searching"}]}'

        async def ask(self, requests):
            return [JudgeAnswer(self.text) for _ in requests]

    bank = open_bank(tmp_path)
    add(bank, *(made(f"m{i}", f"open the drawer first, hint {'abcd'[i]}") for i in range(3)))
    asyncio.run(summarise(bank, 1, ON, Answers(), 0, 1))
    (summary,) = [r for r in bank.records.values() if r.state == "summary"]
    assert (summary.title, summary.content, summary.applicability) == ("T", "Open drawers first.", "searching")


def test_stale_and_weak_records_are_retired(tmp_path):
    bank = open_bank(tmp_path)
    add(
        bank,
        made("weak", "a", r=0.2),
        made("old", "b"),
        made("used", "c", usage=Usage(1, 1, last_used=9)),
        made("kept", "d", pinned=True),
    )
    counts = retire(bank, replace(ON, stale_after=5), update=10)
    assert counts == {"memory/archived_stale": 2, "memory/archived_weak": 0}
    assert {r.id for r in bank.records.values() if r.state == "active"} == {"used", "kept"}
    add(bank, made("poor", "e", r=0.3, update=10))
    assert retire(bank, ON, update=10)["memory/archived_weak"] == 1


def test_the_descriptor_can_be_the_prior_of_the_utility():
    good, bad = made("a", "x", r=0.9, usage=Usage(3, 0)), made("b", "y", r=0.1, usage=Usage(3, 0))
    plain, prior = PruneConfig(), PruneConfig(reward_prior=True)
    assert utility(good, plain) == utility(bad, plain) == pytest.approx(0.2)
    assert utility(good, prior) == pytest.approx(1.8 / 5) and utility(bad, prior) == pytest.approx(0.2 / 5)
    assert value(good, plain) > value(bad, plain)


def test_pruning_tells_utility_and_descriptor(tmp_path):
    bank = open_bank(tmp_path)
    add(bank, made("a", "x", r=0.9, usage=Usage(3, 0)), made("b", "y", r=0.1, usage=Usage(3, 0)))
    assert prune(bank, PruneConfig(reward_prior=True), 1)["memory/pruned"] == 1
    assert bank.records["b"].reason == "utility 0.040 below 0.3 after 3 uses, R 0.10"


def test_refuted_records_leave_a_full_bank_first(tmp_path):
    bank = open_bank(tmp_path)
    add(bank, made("a", "one"), made("b", "two"), made("c", "three", r=0.71))
    bank.apply([Event("conflict", "b", 0, "curate", "test", {"other": "a", "loser": "a"})])
    keep_budget(bank, 2, PruneConfig(), 1)
    assert {r.id for r in bank.records.values() if r.retrievable} == {"b", "c"}


RECORDS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "bread is in drawer 1",
                "bread is in the drawer 1",
                "bread is in cabinet 2",
                "never open the fridge",
                "open the fridge",
                "egg in drawer 2",
            ]
        ),
        st.sampled_from(["procedural_hint", "tool_usage", "failure_avoidance"]),
        st.sampled_from(["verified_success", "verified_fail", "uncertain"]),
        st.floats(0, 1),
        st.floats(0, 1),
        st.sampled_from(["active", "active", "provisional"]),
        st.booleans(),
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(RECORDS, st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=6)), min_size=1, max_size=5
    ),
    st.integers(1, 6),
)
def test_invariants_hold_under_random_streams(tmp_path_factory, updates, budget):
    bank = open_bank(tmp_path_factory.mktemp("bank"))
    config = replace(ON, merge=0.8, conflict=0.6, summarise=0.4, summarise_from=2, stale_after=2)
    ever: set[str] = set()
    for update, (proposed, uses) in enumerate(updates):
        names = sorted(bank.records)
        for number, success in uses if names else []:
            counts = {"c_use": 1, "c_succ": int(success), "accepted": 1, "rejected": 0, "accepted_succ": int(success)}
            bank.apply([Event("use", names[number % len(names)], update, "curate", "", counts)])
        records = [
            made(
                f"u{update}n{i}",
                text,
                r=r,
                c=c,
                label=label,
                type=kind,
                state=state,
                pinned=pinned,
                update=update,
                guard_condition="g",
            )
            for i, (text, kind, label, r, c, state, pinned) in enumerate(proposed)
        ]
        new, _ = write(bank, records, 0.95, update)
        ever |= set(new)
        consolidate(bank, new, config, ADMISSION, update)
        prune(bank, PruneConfig(), update)
        retire(bank, config, update)
        asyncio.run(summarise(bank, budget, config, None, 0, update))
        keep_budget(bank, budget, PruneConfig(), update)
        bank.commit(update)
        check(bank, budget, ever)
    again = read_bank(bank.folder)
    assert again.digest() == bank.digest()


def check(bank, budget: int, ever: set[str]):
    held = {r.id for r in bank.records.values() if r.retrievable}
    assert len(held) <= budget
    assert {r.id for r in bank.view().records} == held
    assert ever <= set(bank.records), "nothing is lost"
    for one in bank.records.values():
        assert all(one.id in bank.records[other].conflict_links for other in one.conflict_links), "links are symmetric"
        assert set(one.lost_to) <= set(one.conflict_links)
        assert one.descriptor is None or (0 <= one.descriptor.reward <= 1 and 0 <= one.descriptor.confidence <= 1)
        assert 0 <= one.quality <= 1
        assert all(bank.records[c].state == "archived" and not bank.records[c].covers for c in one.covers), (
            "covers are acyclic"
        )
        assert one.superseded_by == "" or one.superseded_by in bank.records
        assert one.usage.c_succ <= one.usage.c_use
