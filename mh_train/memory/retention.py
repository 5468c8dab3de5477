"""What leaves the retrievable set: useless, stale, weak and surplus records (SPEC 4 and 5).

Why: very large banks retrieve slower and less precisely (MemGuard, Table 24). Invariants: after `keep_budget` at most
`budget` records are retrievable; archived is a state, nothing is deleted; pinned records go last, and only to the
budget.
"""

from __future__ import annotations

from collections.abc import Callable

from mh_train.config.schema import LifecycleConfig, PruneConfig
from mh_train.memory.bank import Bank
from mh_train.memory.journal import Event, EventKind
from mh_train.memory.records import Record

ACTOR = "curate"


def utility(record: Record, config: PruneConfig) -> float:
    """s = (c_succ + 1) / (c_use + 2); with `reward_prior`, (c_succ + 2 R) / (c_use + 2): the verifier's R instead of
    1/2 is what s starts from, so that descriptor and usage are weighed together."""
    prior = record.descriptor.reward if config.reward_prior and record.descriptor else 0.5
    return (record.usage.c_succ + 2 * prior) / (record.usage.c_use + 2)


def value(record: Record, config: PruneConfig) -> float:
    """What a record is worth to a full bank: its utility, averaged with quality x confidence where it was verified."""
    s = utility(record, config)
    return s if record.descriptor is None else (s + record.quality * record.descriptor.confidence) / 2


def prune(bank: Bank, config: PruneConfig, update: int) -> dict[str, float]:
    """Archive retrievable records whose utility is below the threshold after enough uses."""

    def useless(record: Record) -> str:
        s = utility(record, config)
        if not record.retrievable or record.usage.c_use < config.min_uses or s >= config.utility:
            return ""
        judged = f", R {record.descriptor.reward:.2f}" if record.descriptor else ""
        return f"utility {s:.3f} below {config.utility} after {record.usage.c_use} uses{judged}"

    return {"memory/pruned": _archive(bank, useless, "prune", update)}


def retire(bank: Bank, config: LifecycleConfig, update: int) -> dict[str, float]:
    """Archive stale records (not learnt, verified or used for `stale_after` updates) and those of low quality."""

    def stale(record: Record) -> str:
        age = update - record.last_sign
        return f"unused for {age} updates" if config.stale_after and age > config.stale_after else ""

    def weak(record: Record) -> str:
        low = record.descriptor is not None and record.state == "active" and record.quality < config.min_quality
        return f"quality {record.quality:.2f} below {config.min_quality}" if low else ""

    return {
        "memory/archived_stale": _archive(bank, stale, "archive", update),
        "memory/archived_weak": _archive(bank, weak, "archive", update),
    }


def keep_budget(bank: Bank, budget: int, config: PruneConfig, update: int) -> dict[str, float]:
    """Archive the least valuable records until at most `budget` are retrievable: first those that lost a conflict, then
    by value, oldest first, ties by id."""
    held = [record for record in bank.records.values() if record.retrievable]
    live = {record.id for record in held}

    def rank(record: Record) -> tuple[bool, bool, float, int, str]:
        refuted = any(other in live for other in record.lost_to)
        return (record.pinned, not refuted, round(value(record, config), 9), record.created, record.id)

    surplus = sorted(held, key=rank)[: max(len(held) - budget, 0)]
    reason = f"over the budget of {budget} active records"
    bank.apply([Event("archive", r.id, update, ACTOR, f"{reason} (value {value(r, config):.3f})") for r in surplus])
    return {"memory/archived_for_budget": float(len(surplus))}


def _archive(bank: Bank, reason: Callable[[Record], str], kind: EventKind, update: int) -> float:
    """Archive every unpinned live record that `reason` gives a reason for; how many."""
    live = sorted((r for r in bank.records.values() if r.state != "archived" and not r.pinned), key=lambda r: r.id)
    events = [Event(kind, r.id, update, ACTOR, why) for r in live if (why := reason(r))]
    bank.apply(events)
    return float(len(events))
