"""Governed retrieval against a plain reading of Eq. 3 and 4."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_parts import EMBEDDER, add, open_bank, query, record

from mh_train.config.schema import DedupConfig, ScoringConfig
from mh_train.memory.journal import Event
from mh_train.memory.reader import BankReader
from mh_train.memory.records import Descriptor, Signature, Usage
from mh_train.memory.scoring import normalise, score_guards, score_positive

ON = ScoringConfig(enabled=True, min_relevance=-1.0)


def judged(name: str, content: str, *, r=0.8, c=0.8, label="verified_success", verified=0, **values):
    values.setdefault("signature", Signature(values.get("type", "procedural_hint"), "pick", "toy"))
    return record(content, id=name, descriptor=Descriptor(r, c, label, verified), quality=r, **values)


def reader(folder, *records, update=9, **values) -> BankReader:
    bank = open_bank(folder, **{"scoring": ON, "hybrid": True, "k": 5, **values})
    add(bank, *records, update=update)
    return BankReader(bank.view(), EMBEDDER, bank.config)


def ask(one: BankReader, *queries):
    return one.rank(EMBEDDER.encode([q.text for q in queries]), queries)


SEVEN = [
    judged("a", "bread is in the drawer", r=0.9, c=0.9, usage=Usage(4, 4, last_used=8)),
    judged("b", "bread in a drawer", r=0.7, c=0.6, label="uncertain", verified=3),
    judged(
        "c",
        "look for bread",
        r=0.75,
        signature=Signature("procedural_hint", "pick", "toy", "examine", (), ("bread", "lamp")),
    ),
    judged("d", "eggs are cold", task_type="heat", usage=Usage(4, 0)),
    judged("e", "bread is never in the drawer", r=0.71, c=0.61, update=5),
]


def plain_positive(view, relevance, asked, weights, risks):
    """Eq. 3, one record at a time."""
    said = set(f"{asked.goal} {asked.observation} {asked.text}".split())
    terms = []
    for row, one in enumerate(view.records):
        condition = one.signature.condition
        met = sum(w in said for w in condition) / len(condition) if condition else 1.0
        worth = {"verified_success": 1, "uncertain": 0.5, "verified_fail": 0}[one.descriptor.label]
        last = max(one.created, one.descriptor.verified_at, one.usage.last_used)
        terms.append(
            [
                relevance[row],
                one.quality,
                0.5 * (one.task_type == asked.task_type) + 0.5 * met,
                max(one.created, one.descriptor.verified_at),
                one.usage.utility,
                len(one.lost_to),
                view.update - last,
                (1 - one.descriptor.confidence) / 2 + (1 - worth) / 2,
            ]
        )
    columns = np.array(terms, dtype=float).T
    spans = [(c - c.min()) / (c.max() - c.min()) if c.max() > c.min() else 0 * c for c in columns]
    signed = [*weights, *(-x for x in risks)]
    return sum(w * s for w, s in zip(signed, spans, strict=True))


def test_positive_scores_are_equation_3(tmp_path):
    bank = open_bank(tmp_path, scoring=ON, hybrid=True)
    add(bank, *SEVEN, update=9)
    bank.apply([Event("conflict", "a", 9, "curate", "", {"other": "e", "loser": "e"})])
    bank.commit(9)
    view, asked = bank.view(), query("where is the bread")
    relevance = view.relevance(EMBEDDER.encode([asked.text]), [asked], 0.5).total
    scored = score_positive(view, "positive", relevance, view.applicability([asked]), ON)
    expected = plain_positive(view, relevance[0], asked, ON.positive, ON.risk)
    np.testing.assert_allclose(scored.scores[0], expected, atol=2e-6)
    for i in range(len(SEVEN)):
        assert sum(scored.terms(0, i).values()) == pytest.approx(scored.scores[0, i], abs=1e-5)
    assert scored.terms(0, 4)["conflict"] == pytest.approx(-0.20)
    best = scored.rows[0, scored.order(0)]
    assert best.tolist() == np.argsort(-expected, kind="stable").tolist() and view.records[best[0]].id == "a"


def test_default_weights_are_the_papers():
    default = ScoringConfig()
    assert default.positive == [0.40, 0.25, 0.10, 0.10, 0.15] and default.risk == [0.20, 0.15, 0.30]
    assert default.guard == [0.45, 0.30, 0.25] and default.guard_risk == [0.15, 0.15, 0.25]
    assert (default.pool, default.summaries, default.guards) == (20, 2, 2)
    assert (default.guard_relevance, default.guard_confidence) == (0.62, 0.70)


def test_unsafe_and_irrelevant_records_never_pass(tmp_path):
    one = reader(
        tmp_path,
        judged("ok", "bread is in the drawer"),
        judged("failed", "bread is in the drawer", label="verified_fail", c=1.0),
        judged("unsure", "bread is in the drawer", c=0.49),
        judged("far", "zebra"),
        replace(record("bread is in the drawer", id="unverified")),
        scoring=replace(ON, min_relevance=0.05),
    )
    (hits,) = ask(one, query("bread in the drawer"))
    assert [hit.record_id for hit in hits] == ["ok", "unverified"]


def guard(name: str, content: str, **values):
    return judged(
        name,
        content,
        type="failure_avoidance",
        guard_condition="check the label",
        **{"label": "verified_fail", **values},
    )


def test_roles_come_in_order_with_their_own_budgets(tmp_path):
    advice = [judged(f"p{i}", f"bread advice {i}") for i in range(8)]
    warnings = [guard(f"g{i}", "bread in drawer") for i in range(4)]
    summaries = [judged(f"s{i}", f"bread summary {i}", state="summary") for i in range(3)]
    (hits,) = ask(reader(tmp_path, *advice, *warnings, *summaries), query("bread in drawer"))
    assert [hit.role for hit in hits] == ["positive"] * 5 + ["summary"] * 2 + ["guard"] * 2
    assert hits[-1].memory == "check the label: bread in drawer"


def test_guards_need_relevance_and_confidence(tmp_path):
    near, unsure, far = (
        guard("near", "bread in drawer"),
        guard("unsure", "bread in drawer", c=0.69),
        guard("far", "bread elsewhere"),
    )
    one = reader(tmp_path, near, unsure, far)
    (hits,) = ask(one, query("bread in drawer"))
    assert [hit.record_id for hit in hits] == ["near"]
    relevance = one.view.relevance(EMBEDDER.encode(["bread in drawer"]), [query("bread in drawer")], 0.5).total
    asked = one.view.applicability([query("bread in drawer")])
    loose = score_guards(one.view, relevance, asked, replace(ON, guard_relevance=0.0, guard_confidence=0.0))
    assert loose.valid.sum() == 3 and loose.names[-1] == "vagueness"


def test_a_summary_or_hint_carries_its_condition(tmp_path):
    (hits,) = ask(reader(tmp_path, judged("a", "look inside", applicability="food is missing")), query("look inside"))
    assert hits[0].memory == "look inside (when: food is missing)"


def test_read_dedup_keeps_the_better_scored_copy(tmp_path):
    worse, better = judged("a", "bread is in the drawer", r=0.70), judged("b", "bread is in the drawer", r=0.95)
    (hits,) = ask(reader(tmp_path, worse, better, dedup=DedupConfig(read=0.9)), query("bread"))
    assert [hit.record_id for hit in hits] == ["b"]


def test_archived_and_provisional_records_are_never_injected(tmp_path):
    hidden = [judged("x", "bread", state="archived"), judged("y", "bread", state="provisional")]
    assert ask(reader(tmp_path, *hidden, judged("z", "bread")), query("bread"))[0][0].record_id == "z"


def test_semantic_only_retrieval_still_separates_guards(tmp_path):
    one = reader(
        tmp_path,
        judged("p", "bread in drawer"),
        guard("g", "bread in drawer", c=0.1),
        scoring=ScoringConfig(enabled=False),
    )
    (hits,) = ask(one, query("bread in drawer"))
    assert [(hit.record_id, hit.role) for hit in hits] == [("p", "positive"), ("g", "guard")]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.sampled_from(["bread", "drawer", "egg cold", "zebra", "", "where is the bread"]), min_size=1, max_size=6
    )
)
def test_a_batch_ranks_as_its_queries_alone(tmp_path_factory, texts):
    one = reader(tmp_path_factory.mktemp("bank"), *SEVEN, guard("g", "bread in drawer"))
    queries = [query(text) for text in texts]
    together = ask(one, *queries)
    assert [[h.record_id for h in hits] for hits in together] == [
        [h.record_id for h in ask(one, q)[0]] for q in queries
    ]


def test_normalisation_ignores_what_was_filtered_and_flat_terms():
    values = np.array([[1.0, 3.0, 100.0, 2.0], [5.0, 5.0, 5.0, 0.0]])
    valid = np.array([[True, True, False, True], [True, True, True, False]])
    assert normalise(values, valid).tolist() == [[0, 1, 0, 0.5], [0, 0, 0, 0]]
    assert normalise(np.zeros((2, 0)), np.zeros((2, 0), dtype=bool)).shape == (2, 0)


def test_an_environment_without_records_gets_nothing(tmp_path):
    one = reader(tmp_path, *SEVEN)
    assert asyncio.run(one.retrieve(query("bread", env="webshop"))) == []
