"""Episodes in, results out: one row per episode, one summary per (panel, mode), comparisons between modes.

Why: whatever the table, the report or a paper shows must be computable again from the rows on disk.
Invariants: everything here is a pure function of the rows; nothing depends on time, order of arrival or machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict
from typing import Any

from mh_train.agent.reward import episode_numbers
from mh_train.agent.types import Trajectory
from mh_train.evaluate.behaviour import asks, behaviour
from mh_train.evaluate.effects import cohens_h, micro
from mh_train.evaluate.statistics import TaskValues, benjamini_hochberg, holm, mean_std, paired_bootstrap, wilson

Row = Mapping[str, Any]
RETRIEVAL = ("retrievals", "accepted", "rejected", "empty", "replayed")
PER_EPISODE = (
    *("score", "steps", "turns", *RETRIEVAL, "malformed", "inadmissible", "truncated", "shortened"),
    *("prompt_tokens", "completion_tokens"),
)


def episode_row(trajectory: Trajectory, things: Set[str] | None = None) -> dict[str, Any]:
    """What is kept of an episode: task, numbers, actions, retrievals; no durations, so equal runs give equal rows.

    `things` are the environment's words for things (by default those of this episode), see `behaviour.asks`."""
    return {
        "task": trajectory.task_id,
        "type": trajectory.task_type,
        "dropped": False,
        **episode_numbers(trajectory),
        "actions": [step.action for step in trajectory.steps],
        "asked": asks(trajectory, things),
    }


def dropped_row(task_id: str, task_type: str) -> dict[str, Any]:
    """The row of a task whose environment failed for good: a failure, counted under its own name."""
    numbers = dict.fromkeys(("success", "reward", *PER_EPISODE), 0.0)
    return {"task": task_id, "type": task_type, "dropped": True, **numbers, "actions": [], "asked": []}


def summarise(rows: Mapping[int, Sequence[Row]]) -> dict[str, Any]:
    """Summary of one (panel, mode) from its rows by seed (SPEC 7).

    Success is given over episodes (`success` with the Wilson interval over tasks, and again as `micro`), per task type,
    and as the mean over types (`macro`); spreads are over seeds. `when_accepted` and `when_rejected` pool the episodes
    of all seeds that retrieved and used, or retrieved and never used, what came back.
    """
    seeds = sorted(rows)
    every = [row for seed in seeds for row in rows[seed]]
    tasks = len(rows[seeds[0]])
    success = _spread([_mean(row["success"] for row in rows[seed]) for seed in seeds])
    types = sorted({row["type"] for row in every})
    by_type = {kind: [_mean(r["success"] for r in rows[seed] if r["type"] == kind) for seed in seeds] for kind in types}
    return {
        "tasks": tasks,
        "episodes": len(every),
        "dropped": sum(row["dropped"] for row in every),
        "success": {**success, "wilson": list(wilson(success["mean"], tasks))},
        "micro": success,
        "macro": _spread([_mean(shares) for shares in zip(*by_type.values(), strict=True)]),
        "per_type": {
            kind: {**_spread(shares), "tasks": sum(row["type"] == kind for row in rows[seeds[0]])}
            for kind, shares in by_type.items()
        },
        **{name: _spread([_mean(row[name] for row in rows[seed]) for seed in seeds]) for name in PER_EPISODE},
        "behaviour": behaviour([(row["success"], row["asked"]) for row in every]),
        "when_accepted": _conditional([row for row in every if row["accepted"] > 0]),
        "when_rejected": _conditional([row for row in every if row["retrievals"] > 0 and row["accepted"] == 0]),
    }


def task_values(rows: Mapping[int, Sequence[Row]], panel_hash: str, metric: str = "success") -> TaskValues:
    """One value per task, averaged over seeds: what paired tests compare."""
    collected: dict[str, list[float]] = {}
    for seed in sorted(rows):
        for row in rows[seed]:
            collected.setdefault(row["task"], []).append(float(row[metric]))
    return TaskValues(panel_hash, {task: _mean(found) for task, found in collected.items()})


def compare_modes(values: Mapping[str, Mapping[str, TaskValues]], metric: str, seed: int = 0) -> list[dict[str, Any]]:
    """The first mode of every panel against each of its others; p values corrected over all of these comparisons.

    `values` is panel -> mode -> task values in [0, 1], modes in the order of the config.
    """
    found = []
    for panel, modes in values.items():
        first, *others = modes
        for other in others:
            comparison = paired_bootstrap(modes[first], modes[other], seed)
            h = cohens_h(micro(modes[first].values), micro(modes[other].values))
            found.append(
                {"panel": panel, "a": first, "b": other, "metric": metric, **asdict(comparison), "cohens_h": h}
            )
    p_values = [one["p_value"] for one in found]
    for one, fdr, family in zip(found, benjamini_hochberg(p_values), holm(p_values), strict=True):
        one.update(p_benjamini_hochberg=fdr, p_holm=family)
    return found


def _spread(per_seed: Sequence[float]) -> dict[str, Any]:
    mean, std = mean_std(per_seed)
    return {"mean": mean, "std": std}


def _conditional(rows: Sequence[Row]) -> dict[str, Any]:
    return {"episodes": len(rows), "success": _mean(row["success"] for row in rows) if rows else None}


def _mean(numbers: Any) -> float:
    return mean_std([float(number) for number in numbers])[0]
