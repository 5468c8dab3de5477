"""How the bank stands after an update: sizes, mix, rates, ages, descriptors (MemGuard E.1).

Why: task success alone does not show whether a memory is growing, rotting or maintained. Every number is a metric
`memory/...`; shares are of retrievable records, rates are per candidate of this update.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mh_train.memory.events import BankState

BINS = 5
RATES = {
    "memory/admitted_rate": "memory/admitted",
    "memory/rejected_rate": "memory/not_admitted",
    "memory/merged_rate": "memory/merged",
    "memory/conflicts_rate": "memory/conflicts",
    "memory/duplicates_rate": "memory/duplicates",
    "memory/uncertain_rate": "memory/uncertain",
}

ARCHIVED = ("conflict_archived", "archived_stale", "archived_weak", "archived_for_budget", "summarised", "pruned")
"""Counts of what governance took out of retrieval in an update, beside merges."""


def health(state: BankState) -> dict[str, float]:
    """Sizes by state and type, mean age, use and utility, and histograms of R and c over five equal bins."""
    records = list(state.records.values())
    held = [record for record in records if record.retrievable]
    states = [record.state for record in records]
    types = [record.type for record in held]
    size, now = max(len(held), 1), state.update
    out = {
        "memory/total": len(records),
        "memory/active": len(held),
        "memory/provisional": states.count("provisional"),
        "memory/archived": states.count("archived"),
        "memory/summaries": states.count("summary"),
        "memory/guards": types.count("failure_avoidance"),
        "memory/share_hints": types.count("procedural_hint") / size,
        "memory/share_tools": types.count("tool_usage") / size,
        "memory/share_guards": types.count("failure_avoidance") / size,
        "memory/share_used": sum(record.usage.c_use > 0 for record in held) / size,
        "memory/mean_age": sum(max(now - record.created, 0) for record in held) / size,
        "memory/mean_utility": sum(record.usage.utility for record in held) / size,
    }
    judged = [record.descriptor for record in held if record.descriptor]
    if judged:
        for name, values in (("reward", [d.reward for d in judged]), ("confidence", [d.confidence for d in judged])):
            shares = np.histogram(values, bins=BINS, range=(0, 1))[0] / len(judged)
            out |= {f"memory/{name}_bin_{i}": share for i, share in enumerate(shares)}
            out[f"memory/mean_{name}"] = float(np.mean(values))
    return {name: float(value) for name, value in out.items()}


def rates(metrics: Mapping[str, float]) -> dict[str, float]:
    """What became of this update's candidates, as shares of them (a candidate may count in several)."""
    candidates = metrics.get("memory/candidates", 0.0)
    if not candidates:
        return {}
    archived = sum(metrics.get(f"memory/{name}", 0.0) for name in ARCHIVED)
    shares = {rate: metrics.get(count, 0.0) / candidates for rate, count in RATES.items()}
    return shares | {"memory/archived_rate": archived / candidates}
