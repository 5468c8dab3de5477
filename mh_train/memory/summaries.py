"""Summaries (SPEC 5): repeated successes of one kind become one record that covers them.

Why: a bank over its budget should give up repetition before it gives up knowledge.
Invariants: a summary covers at least `summarise_from` active records of one type, environment and action, all of them
archived in its favour and named in `covers`; summaries are never summarised, so covers cannot form a circle;
provenance and usage of what is covered are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mh_train.config.schema import LifecycleConfig
from mh_train.engine.base import Message, noise_key
from mh_train.memory.bank import Bank, add_event
from mh_train.memory.induction import parse_candidates
from mh_train.memory.journal import Event
from mh_train.memory.judge import Judge, JudgeRequest
from mh_train.memory.lifecycle import similarity
from mh_train.memory.records import Change, Descriptor, Record, Usage, clean_text, record_id
from mh_train.memory.signature import same_advice

ACTOR = "curate"
SYSTEM = """You condense memories of an agent that say similar things into one. Keep what they share and the condition
under which it holds; leave out names and numbers of single tasks; add nothing."""
ASK = """Memories:
{memories}
Answer with one JSON object and nothing else:
{{"records": [{{"title": "...", "content": "one or two sentences", "applicability": "..."}}]}}"""


async def summarise(
    bank: Bank, budget: int, config: LifecycleConfig, judge: Judge | None, seed: int, update: int
) -> dict[str, float]:
    """While more than `budget` records are retrievable, replace clusters of successes, the largest first, by summaries.

    A judge words them when there is one; without it, or when its answer cannot be read, the central record's words
    stand."""
    surplus = sum(record.retrievable for record in bank.records.values()) - budget
    chosen: list[list[Record]] = []
    for cluster in clusters(bank, config) if surplus > 0 else []:
        if surplus <= 0:
            break
        chosen.append(cluster)
        surplus -= len(cluster) - 1
    worded = await _worded(chosen, judge, seed, update) if chosen else []
    for cluster, text in zip(chosen, worded, strict=True):
        summary = summary_of(cluster, bank, text, update)
        vector = bank.embedder.encode([summary.key_text()])[0]
        bank.apply([add_event(summary, vector, update, ACTOR, f"summary of {len(cluster)} successes")])
        reason, data = f"covered by summary {summary.id}", {"superseded_by": summary.id}
        bank.apply([Event("archive", record.id, update, ACTOR, reason, data) for record in cluster])
    return {"memory/summaries_made": float(len(chosen)), "memory/summarised": float(sum(map(len, chosen)))}


def clusters(bank: Bank, config: LifecycleConfig) -> list[list[Record]]:
    """Groups of successful, unpinned, active records with the same action and options in which each is similar enough
    to the group's first, largest group first, ties by id."""
    able = sorted((r for r in bank.records.values() if _repeatable(r)), key=lambda r: r.id)
    free = {r.id for r in able}
    found: list[list[Record]] = []
    matrix = np.array([bank.state.vectors[r.id] for r in able])
    for i, first in enumerate(able):
        if first.id not in free:
            continue
        cosines = matrix @ matrix[i]
        group = [
            other
            for other, cosine in zip(able, cosines, strict=True)
            if other.id in free
            and other.env == first.env
            and same_advice(other, first)
            and (other is first or similarity(float(cosine), first.signature, other.signature) > config.summarise)
        ]
        if len(group) >= config.summarise_from:
            found.append(group)
            free -= {r.id for r in group}
    return sorted(found, key=lambda group: (-len(group), group[0].id))


def _repeatable(record: Record) -> bool:
    proven = record.descriptor.label == "verified_success" if record.descriptor else record.usage.utility >= 0.5
    return record.state == "active" and record.type != "failure_avoidance" and not record.pinned and proven


def summary_of(cluster: Sequence[Record], bank: Bank, text: tuple[str, str, str] | None, update: int) -> Record:
    """The summary record of a cluster: texts of the central member (or `text` = title, content, applicability), joined
    usage and provenance, mean R and least c of the descriptors."""
    vectors = np.array([bank.state.vectors[r.id] for r in cluster])
    central = cluster[int(np.argmax(np.round(vectors @ vectors.mean(axis=0), 6)))]
    title, content, applicability = text or (central.title, central.content, central.applicability or central.situation)
    judged = [r.descriptor for r in cluster if r.descriptor]
    descriptor = None
    if judged:
        mean = float(np.mean([d.reward for d in judged]))
        latest = max(d.verified_at for d in judged)
        descriptor = Descriptor(mean, min(d.confidence for d in judged), "verified_success", latest)
    covers = tuple(sorted(r.id for r in cluster))
    return Record(
        id=record_id("summary", central.env, *covers),
        env=central.env,
        task_type=central.task_type,
        type=central.type,
        title=title,
        content=content,
        applicability=applicability,
        evidence_span=central.evidence_span,
        source_state=central.source_state,
        state="summary",
        source_status=central.source_status,
        quality=float(np.mean([r.quality for r in cluster])),
        descriptor=descriptor,
        usage=sum((r.usage for r in cluster), Usage()),
        signature=central.signature,
        covers=covers,
        provenance=tuple(dict.fromkeys(p for r in cluster for p in r.provenance)),
        timeline=(Change(update, "add", ACTOR, f"summary of {len(cluster)} successes"),),
    )


async def _worded(
    chosen: Sequence[Sequence[Record]], judge: Judge | None, seed: int, update: int
) -> list[tuple[str, str, str] | None]:
    """(title, content, applicability) of each cluster by the judge; None where there is no usable answer."""
    if judge is None:
        return [None] * len(chosen)
    requests = []
    for cluster in chosen:
        told = "\n".join(f"- {r.content} (when: {r.applicability or r.situation or 'not said'})" for r in cluster[:20])
        messages = [Message(role="system", content=SYSTEM), Message(role="user", content=ASK.format(memories=told))]
        requests.append(JudgeRequest("induce", messages, noise_key(seed, update, cluster[0].id, "summary"), 0.0, 256))
    texts: list[tuple[str, str, str] | None] = []
    for answer in await judge.ask(requests):
        entry = next(iter(parse_candidates(answer.text) or []), {})
        title, content, applicability = (
            clean_text(str(entry.get(name) or "")) for name in ("title", "content", "applicability")
        )
        texts.append((title, content, applicability) if content else None)
    return texts
