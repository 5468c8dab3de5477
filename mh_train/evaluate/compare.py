"""Several runs side by side: runs that differ in nothing but their seed are one row, rows are compared task by task.

Why: a sweep leaves a folder per job, and single runs differ by luck. Invariants: the unit of resampling is the task
(the runs of a row are averaged first); p values are corrected over all comparisons of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mh_train.evaluate.statistics import (
    Comparison,
    EvaluationError,
    TaskValues,
    benjamini_hochberg,
    holm,
    mean_std,
    paired_bootstrap,
)


@dataclass(frozen=True)
class Compared:
    """One row: its runs' mean and spread over runs, and the paired comparison with the first row (None for itself)."""

    label: str
    runs: int
    mean: float
    std: float | None
    against_first: Comparison | None = None
    p_benjamini_hochberg: float | None = None
    p_holm: float | None = None


def pooled(runs: Sequence[TaskValues]) -> TaskValues:
    """The mean of several runs' values, task by task. Raises `EvaluationError` when their panels differ."""
    first = runs[0]
    if any(run.panel_hash != first.panel_hash or set(run.values) != set(first.values) for run in runs):
        raise EvaluationError("The runs were evaluated on different tasks; evaluate all of them on the same panel.")
    return TaskValues(
        first.panel_hash, {task: mean_std([run.values[task] for run in runs])[0] for task in first.values}
    )


def compare_runs(rows: Mapping[str, Sequence[TaskValues]], seed: int = 0) -> list[Compared]:
    """Each row (label -> task values of its runs) with mean +- std over runs, all but the first tested against the
    first. Raises `EvaluationError` when panels differ."""
    labels = list(rows)
    values = {label: pooled(rows[label]) for label in labels}
    tests = {label: paired_bootstrap(values[label], values[labels[0]], seed) for label in labels[1:]}
    p_values = [tests[label].p_value for label in labels[1:]]
    corrected = dict(zip(labels[1:], zip(benjamini_hochberg(p_values), holm(p_values), strict=True), strict=True))
    found = []
    for label in labels:
        mean, std = mean_std([mean_std(list(run.values.values()))[0] for run in rows[label]])
        fdr, family = corrected.get(label, (None, None))
        found.append(Compared(label, len(rows[label]), mean, std, tests.get(label), fdr, family))
    return found
