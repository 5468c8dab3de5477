"""Usage: which records were retrieved by which trajectories, with what outcome (SPEC 4).

Why: counting every retrieval made a memory that was read five times in one won episode look useless (1 success, 5
uses). Invariant: a record is counted once per trajectory, however often that trajectory retrieved it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mh_train.agent.types import Trajectory
from mh_train.memory.bank import Bank
from mh_train.memory.journal import Event
from mh_train.memory.records import USAGE_COUNTS


def use(bank: Bank, trajectories: Sequence[Trajectory], won: Mapping[str, bool], update: int) -> dict[str, float]:
    """Count uses by outcome (`won` by trajectory id) and by what became of the reconstruction.

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
            success = won[trajectory.id]
            count = counts.setdefault(name, dict.fromkeys(USAGE_COUNTS, 0))
            count["c_use"] += 1
            count["c_succ"] += success
            count["accepted"] += taken
            count["rejected"] += not taken
            count["accepted_succ"] += taken and success
    reason = "retrieved by trajectories of this update"
    bank.apply([Event("use", name, update, "curate", reason, counts[name]) for name in sorted(counts)])
    return {"memory/used_records": float(len(counts)), "memory/unknown_hits": float(unknown)}
