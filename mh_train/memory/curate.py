"""One update of the bank: verify, count usage, propose, admit, deduplicate, consolidate, prune, keep the budget, seal.

Why: everything that changes memories happens here, at the update boundary, in one fixed order; episodes only read.
MemHarness' curation (SPEC 4) and MemGuard's governance (SPEC 5) are this one pipeline with switches.
Invariants: at most `memory.budget` records are retrievable after a boundary; the same trajectories, answers and
configuration give the same journal bytes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from mh_train.agent.speaker import Speaker
from mh_train.agent.types import Trajectory
from mh_train.config.schema import Manager, MemoryConfig
from mh_train.engine.base import Engine
from mh_train.memory.bank import Bank, add_event
from mh_train.memory.candidates import Round, make_judge, outcomes, propose
from mh_train.memory.counting import Bill
from mh_train.memory.distill import DistillPrompts
from mh_train.memory.health import health, rates
from mh_train.memory.journal import Event
from mh_train.memory.judge import EngineJudge, Judge
from mh_train.memory.lifecycle import consolidate
from mh_train.memory.managed import manage
from mh_train.memory.records import Record
from mh_train.memory.retention import keep_budget, prune, retire
from mh_train.memory.signature import same_advice
from mh_train.memory.summaries import summarise
from mh_train.memory.usage import use

ACTOR = "curate"


async def curate(
    bank: Bank,
    trajectories: Sequence[Trajectory],
    speaker: Speaker,
    engine: Engine,
    prompts: DistillPrompts,
    config: MemoryConfig,
    seed: int,
    update: int,
    judge: Judge | None = None,
) -> dict[str, float]:
    """Bring the bank from one update to the next; metrics `memory/...`.

    `update` counts from 1. `judge` answers verification and induction; by default the one that
    `memory.verifier.source` names.
    Raises `MemoryStoreError` when the journal cannot be written, `EngineError` when a model cannot answer."""
    started = time.perf_counter()
    bill = Bill()
    speaker = bill.speaker(speaker)
    judge = bill.judge(judge) or make_judge(config.verifier, speaker, engine)
    this = Round(speaker, engine, prompts, judge, seed, update, bank.run)
    won, verified = await outcomes(trajectories, config, this)
    metrics = use(bank, trajectories, won, update)
    if config.write:
        records, judged, rejected, counts = await propose(trajectories, won, verified, config, this)
        bank.apply(rejected)
        metrics |= counts
        if config.manager is Manager.rules:
            new, written = write(bank, records, config.dedup.write, update)
        else:
            manager = judge or EngineJudge(speaker, engine)
            new, written = await manage(bank, records, config.manager, manager, seed, update)
        metrics |= written
        bank.apply([event for event in judged if event.id in new])
        if config.lifecycle.enabled:
            merged = consolidate(bank, new, config.lifecycle, config.admission, update)
            metrics |= {name: metrics.get(name, 0.0) + value for name, value in merged.items()}
    if config.prune.every and update % config.prune.every == 0:
        metrics |= prune(bank, config.prune, update)
    if config.lifecycle.enabled:
        metrics |= retire(bank, config.lifecycle, update)
        metrics |= await summarise(bank, config.budget, config.lifecycle, judge, seed, update)
    metrics |= keep_budget(bank, config.budget, config.prune, update)
    metrics |= bank.commit(update)
    metrics |= health(bank.state) | rates(metrics) | bill.metrics()
    metrics["memory/curate_seconds"] = time.perf_counter() - started
    return metrics


def write(
    bank: Bank, records: Sequence[Record], threshold: float | None, update: int
) -> tuple[list[str], dict[str, float]]:
    """Add admitted records in order, skipping duplicates of same-environment records (SPEC 4, write-time dedup); the
    new ids, and counts.

    A cosine above the threshold under the same condition but with another action is a conflict: added and linked."""
    vectors = bank.embedder.encode([record.key_text() for record in records])
    known = [record for record in bank.records.values() if record.state != "archived"]
    matrix = np.array([bank.state.vectors[record.id] for record in known]).reshape(len(known), vectors.shape[1])
    counts = {"added": 0, "duplicates": 0, "conflicts": 0}
    new: list[str] = []
    for record, vector in zip(records, vectors, strict=True):
        alike = _alike(record, vector, known, matrix, threshold)
        if record.id in bank.records or any(same_advice(other, record) for other in alike):
            counts["duplicates"] += 1
            continue
        bank.apply([add_event(record, vector, update, ACTOR, record.reason)])
        reason = f"cosine above {threshold} with another action"
        bank.apply([Event("conflict", record.id, update, ACTOR, reason, {"other": other.id}) for other in alike])
        known.append(record)
        matrix = np.vstack([matrix, vector])
        new.append(record.id)
        counts["conflicts"] += len(alike)
    counts["added"] = len(new)
    return new, {f"memory/{name}": float(value) for name, value in counts.items()}


def _alike(
    record: Record, vector: np.ndarray, known: Sequence[Record], matrix: np.ndarray, threshold: float | None
) -> list[Record]:
    """Known records of the same type, environment and condition with a cosine above the threshold (none without
    one)."""
    if threshold is None or not known:
        return []
    close = np.flatnonzero(matrix @ vector > threshold)
    return [known[i] for i in close if known[i].signature.same_case(record.signature)]
