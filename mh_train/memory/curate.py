"""One update of the bank (SPEC 4): usage -> distillation -> write dedup -> prune -> budget -> journal -> mirror.

Why: everything that changes memories happens here, at the update boundary, in one fixed order; episodes only read.
Invariants: usage is counted once per trajectory that retrieved a record; active records never exceed the budget after a
boundary; the same trajectories, answers and configuration give the same journal bytes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from mh_train.agent.speaker import Speaker
from mh_train.agent.types import Trajectory
from mh_train.config.schema import MemoryConfig
from mh_train.engine.base import Engine
from mh_train.memory.bank import Bank, add_event
from mh_train.memory.distill import DistillPrompts, distill
from mh_train.memory.journal import Event
from mh_train.memory.records import Record

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
) -> dict[str, float]:
    """Bring the bank from one update to the next; metrics `memory/...`.

    Raises `MemoryStoreError` when the journal cannot be written, `EngineError` when the policy cannot answer."""
    started = time.perf_counter()
    metrics = use(bank, trajectories, update)
    if config.write:
        records, counts = await distill(trajectories, speaker, engine, prompts, config.distill, seed, update, bank.run)
        metrics |= counts | write(bank, records, config, update)
    if config.prune.every and (update + 1) % config.prune.every == 0:
        metrics |= prune(bank, config, update)
    metrics |= keep_budget(bank, config.budget, update)
    metrics |= bank.commit(update)
    metrics |= health(bank)
    metrics["memory/curate_seconds"] = time.perf_counter() - started
    return metrics


def use(bank: Bank, trajectories: Sequence[Trajectory], update: int) -> dict[str, float]:
    """Count who used which record: once per trajectory, by its outcome and by what became of the reconstruction.

    A record counts as accepted in a trajectory when any retrieval that held it was accepted (or replayed verbatim), as
    rejected when all were rejected."""
    counts: dict[str, dict[str, int]] = {}
    unknown = 0
    for trajectory in trajectories:
        outcomes: dict[str, bool] = {}
        for retrieval in trajectory.retrievals:
            taken = retrieval.outcome in ("accepted", "replayed")
            for hit in retrieval.hits:
                outcomes[hit.record_id] = outcomes.get(hit.record_id, False) or taken
        for name, taken in outcomes.items():
            if name not in bank.records:
                unknown += 1
                continue
            count = counts.setdefault(name, dict.fromkeys(("use", "succ", "accepted", "rejected", "accepted_succ"), 0))
            count["use"] += 1
            count["succ"] += trajectory.won
            count["accepted"] += taken
            count["rejected"] += not taken
            count["accepted_succ"] += taken and trajectory.won
    reason = "retrieved by trajectories of this update"
    bank.apply([Event("use", name, update, ACTOR, reason, counts[name]) for name in sorted(counts)])
    return {"memory/used_records": float(len(counts)), "memory/unknown_hits": float(unknown)}


def write(bank: Bank, records: Sequence[Record], config: MemoryConfig, update: int) -> dict[str, float]:
    """Add new records in order, skipping duplicates of same-environment records (SPEC 4, write-time dedup).

    A cosine above the threshold with the same condition but another action is a conflict: added, linked, counted."""
    vectors = bank.embedder.encode([record.key_text() for record in records])
    known = [record for record in bank.records.values() if record.retrievable]
    matrix = np.array([bank.state.vectors[record.id] for record in known]).reshape(len(known), vectors.shape[1])
    counts = {"added": 0, "duplicates": 0, "conflicts": 0}
    for record, vector in zip(records, vectors, strict=True):
        if record.id in bank.records:
            counts["duplicates"] += 1
            continue
        near = _near(record, vector, known, matrix, config.dedup.write)
        alike = [other for other in near if other.signature.same_case(record.signature)]
        if any(other.signature.same_action(record.signature) for other in alike):
            counts["duplicates"] += 1
            continue
        bank.apply([add_event(record, vector, update, ACTOR, "distilled")])
        reason = f"cosine above {config.dedup.write} with another action"
        bank.apply([Event("conflict", record.id, update, ACTOR, reason, {"other": other.id}) for other in alike])
        known.append(record)
        matrix = np.vstack([matrix, vector])
        counts["added"] += 1
        counts["conflicts"] += len(alike)
    return {f"memory/{name}": float(value) for name, value in counts.items()}


def prune(bank: Bank, config: MemoryConfig, update: int) -> dict[str, float]:
    """Archive retrievable records whose utility s is below the threshold after enough uses; pinned ones stay."""
    limit = config.prune
    weak = [
        record
        for record in bank.records.values()
        if record.retrievable
        and not record.pinned
        and record.usage.c_use >= limit.min_uses
        and record.usage.utility < limit.utility
    ]
    bank.apply(
        [
            Event(
                "prune",
                r.id,
                update,
                ACTOR,
                f"utility {r.usage.utility:.3f} below {limit.utility} after {r.usage.c_use} uses",
            )
            for r in sorted(weak, key=lambda r: r.id)
        ]
    )
    return {"memory/pruned": float(len(weak))}


def keep_budget(bank: Bank, budget: int, update: int) -> dict[str, float]:
    """Archive the records of lowest utility, oldest first, until at most `budget` are retrievable; pinned ones go
    last."""
    held = [record for record in bank.records.values() if record.retrievable]
    order = sorted(held, key=lambda r: (r.pinned, r.usage.utility, r.created, r.id))
    surplus = order[: max(len(held) - budget, 0)]
    bank.apply([Event("archive", r.id, update, ACTOR, f"over the budget of {budget} active records") for r in surplus])
    return {"memory/archived_for_budget": float(len(surplus))}


def health(bank: Bank) -> dict[str, float]:
    """How the bank stands: sizes by state, age and use of what can be retrieved."""
    states = [record.state for record in bank.records.values()]
    held = [record for record in bank.records.values() if record.retrievable]
    used = [record for record in held if record.usage.c_use]
    now = bank.state.update
    return {
        "memory/active": float(len(held)),
        "memory/archived": float(states.count("archived")),
        "memory/provisional": float(states.count("provisional")),
        "memory/total": float(len(states)),
        "memory/mean_age": float(np.mean([now - record.created for record in held])) if held else 0.0,
        "memory/share_used": len(used) / len(held) if held else 0.0,
        "memory/mean_utility": float(np.mean([record.usage.utility for record in held])) if held else 0.0,
    }


def _near(
    record: Record, vector: np.ndarray, known: Sequence[Record], matrix: np.ndarray, threshold: float | None
) -> list[Record]:
    """Known records of the same environment whose cosine to `record` is above the threshold (none without one)."""
    if threshold is None or not known:
        return []
    close = np.flatnonzero(matrix @ vector > threshold)
    return [known[i] for i in close if known[i].env == record.env]
