"""Consolidation (SPEC 5): what a new record does to those it resembles, and what a bank over its budget gives up.

Why: without it a bank grows by copies and keeps advice that better evidence has refuted. Merges and conflicts are
looked for when a record enters; summaries, staleness, low quality and the budget at the end of each update.
Invariants: checks stay within one type and environment; a conflict links both ends and names the loser; nothing is
deleted; a pinned record is never archived while an unpinned one could go instead; every decision is an event with its
reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from mh_train.config.schema import AdmissionConfig, LifecycleConfig
from mh_train.memory.admission import quality
from mh_train.memory.bank import Bank
from mh_train.memory.index import words
from mh_train.memory.journal import Event, pack_vector
from mh_train.memory.records import LABEL_WORTH, Record, Signature
from mh_train.memory.signature import same_advice

ACTOR = "curate"
JOINED = ("description", "applicability", "evidence_span")
COMPLEMENT = 0.2
"""Share of new words from which on a merged record's text adds to the other's instead of repeating it."""
MOST_PARTS = 3
"""Texts that one field of a merged record may hold."""


@dataclass(frozen=True)
class Pair:
    """A new record and a similar one."""

    other: str
    similarity: float


def similarity(cosine: float, a: Signature, b: Signature) -> float:
    """sim_ij = cosine * (1 + J) / 2, J the Jaccard index of task pattern and condition words; 0 across types and
    scopes.

    Equal conditions leave the cosine as it is, foreign ones halve it: advice about bread does not contradict advice
    about eggs, however alike the sentences are."""
    if (a.type, a.scope) != (b.type, b.scope):
        return 0.0
    mine, theirs = {f"task {a.task}", *a.condition}, {f"task {b.task}", *b.condition}
    return cosine * (1 + len(mine & theirs) / len(mine | theirs)) / 2


def consolidate(
    bank: Bank, new: Sequence[str], config: LifecycleConfig, admission: AdmissionConfig, update: int
) -> dict[str, float]:
    """Merge new records with what says the same, and resolve conflicts with what says otherwise, in order."""
    counts = {"merged": 0, "conflicts": 0, "conflict_archived": 0}
    for name in new:
        for pair in _similar(bank, name, min(config.merge, config.conflict)):
            mine, other = bank.records[name], bank.records[pair.other]
            if mine.state == "archived":
                break
            if other.state == "archived":
                continue
            if pair.similarity > config.merge and _mergeable(mine, other, config.margin):
                bank.apply([merge_event(bank, mine, other, admission, pair.similarity, update)])
                counts["merged"] += 1
            elif pair.similarity > config.conflict and mine.retrievable and other.retrievable and _differ(mine, other):
                archived = _resolve(bank, mine, other, config, admission, pair.similarity, update)
                counts["conflicts"] += 1
                counts["conflict_archived"] += archived
    return {f"memory/{key}": float(value) for key, value in counts.items()}


def _similar(bank: Bank, name: str, threshold: float) -> list[Pair]:
    """Live records of the same type and environment above the threshold, most similar first, ties by id."""
    mine = bank.records[name]
    peers = [
        r
        for r in bank.records.values()
        if r.id != name and r.state in ("active", "provisional") and (r.type, r.env) == (mine.type, mine.env)
    ]
    if not peers:
        return []
    cosines = np.array([bank.state.vectors[r.id] for r in peers]) @ bank.state.vectors[name]
    pairs = [
        Pair(peers[i].id, round(similarity(float(cosines[i]), mine.signature, peers[i].signature), 6))
        for i in np.flatnonzero(cosines > threshold)
    ]
    return sorted((p for p in pairs if p.similarity > threshold), key=lambda p: (-p.similarity, p.other))


def _mergeable(a: Record, b: Record, margin: float) -> bool:
    """Same advice; and the same label, or rewards so close that the more confident label may stand for both."""
    if not same_advice(a, b):
        return False
    if a.descriptor is None or b.descriptor is None or a.descriptor.label == b.descriptor.label:
        return True
    return abs(a.descriptor.reward - b.descriptor.reward) < margin


def _differ(a: Record, b: Record) -> bool:
    """Eq. 5: another action or another label."""
    labels = (a.descriptor and a.descriptor.label, b.descriptor and b.descriptor.label)
    return not same_advice(a, b) or labels[0] != labels[1]


def standing(record: Record, use_reward: bool) -> list[tuple[str, float]]:
    """What decides between conflicting records, in this order: label, reward, confidence, recency, usage.

    For guards a verified failure is the strongest label: it is what they warn of."""
    d = record.descriptor
    worth = LABEL_WORTH[d.label] if d else 0.5
    if record.type == "failure_avoidance":
        worth = 1.0 - worth
    reward = [("reward", d.reward if d else 0.5)] if use_reward and record.type != "failure_avoidance" else []
    return [
        ("label", worth),
        *reward,
        ("confidence", d.confidence if d else 0.0),
        ("recency", float(max(record.created, record.verified))),
        ("usage", float(record.usage.c_succ)),
    ]


def decide(a: Record, b: Record, use_reward: bool) -> tuple[Record, Record, str, float]:
    """(winner, loser, what decided, by how much). Equal standing: the smaller id wins."""
    for (what, mine), (_, theirs) in zip(standing(a, use_reward), standing(b, use_reward), strict=True):
        if mine != theirs:
            winner, loser = (a, b) if mine > theirs else (b, a)
            return winner, loser, what, abs(mine - theirs)
    return (a, b, "id", 0.0) if a.id < b.id else (b, a, "id", 0.0)


def _resolve(
    bank: Bank, a: Record, b: Record, config: LifecycleConfig, admission: AdmissionConfig, similar: float, update: int
) -> bool:
    """Link the pair; archive the loser when label, reward or confidence decide clearly, else it only counts for
    less."""
    winner, loser, what, gap = decide(a, b, admission.use_reward)
    reason = f"similarity {similar:.2f}, other advice or label; {winner.id} wins by {what}"
    bank.apply([Event("conflict", winner.id, update, ACTOR, reason, {"other": loser.id, "loser": loser.id})])
    clear = what == "label" or (what in ("reward", "confidence") and gap >= config.margin)
    if not clear or loser.pinned:
        return False
    reason = f"refuted by {winner.id} ({what})"
    bank.apply([Event("archive", loser.id, update, ACTOR, reason, {"superseded_by": winner.id})])
    return True


def merge_event(bank: Bank, a: Record, b: Record, admission: AdmissionConfig, similar: float, update: int) -> Event:
    """One record out of two that say the same: the active, else the older one keeps its id and wording.

    Text of the other that adds something (condition, evidence, description) is appended; the descriptor is the more
    confident one; provenance and usage are joined by the event itself."""
    kept, gone = sorted((a, b), key=lambda r: (r.state != "active", r.created, r.id))
    fields: dict[str, Any] = {name: _joined(getattr(kept, name), getattr(gone, name)) for name in JOINED}
    best = max((r.descriptor for r in (kept, gone) if r.descriptor), key=lambda d: d.confidence, default=None)
    if best is not None:
        fields["descriptor"] = asdict(best)
        fields["quality"] = quality(kept.type == "failure_avoidance", best, admission.use_reward)
    fields["pinned"] = kept.pinned or gone.pinned
    data: dict[str, Any] = {"other": gone.id, "fields": fields}
    merged = replace(kept, **{name: fields[name] for name in JOINED})
    if merged != kept:
        data["vector"] = pack_vector(bank.embedder.encode([merged.key_text()])[0])
    what = "duplicate" if merged == kept else "complement"
    return Event("merge", kept.id, update, ACTOR, f"{what} of similarity {similar:.2f}", data)


def _joined(mine: str, other: str) -> str:
    """The text, with the other's appended when it brings new words."""
    new = set(words(other)) - set(words(mine))
    if not new or len(new) < COMPLEMENT * len(set(words(other))) or mine.count("; ") >= MOST_PARTS - 1:
        return mine
    return f"{mine}; {other}" if mine else other
