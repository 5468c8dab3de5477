"""Is one mode better than another, and how sure is that: spread over seeds, intervals, paired tests, corrections.

Why: a few tasks more or less is what single runs differ by anyway; every claim of the results table has its interval.
Invariants: the unit of resampling is the task (its seeds are averaged first), two panels are compared only when they
are the same list of tasks, and equal input and seed give equal numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
_CHUNK = 1_000


class EvaluationError(ValueError):
    """A result cannot be computed or compared; the message says what to do."""


@dataclass(frozen=True)
class TaskValues:
    """One number per task of a panel (seeds averaged), keyed by task id."""

    panel_hash: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Comparison:
    """a - b over n tasks: mean difference, percentile interval, two-sided bootstrap p, Cohen's d of the differences.

    `effect` is None when every task differs by the same amount other than 0 (no spread to divide by)."""

    difference: float
    low: float
    high: float
    p_value: float
    effect: float | None
    tasks: int


def mean_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation (n - 1) over seeds; None with a single seed, which has no spread."""
    if not values:
        raise EvaluationError("There is nothing to average; run at least one seed.")
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, None
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def wilson(share: float, n: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson score interval (95 % by default) of a success share over n tasks."""
    if n <= 0:
        raise EvaluationError("A success share over no tasks has no interval; give a panel with tasks.")
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def paired_bootstrap(a: TaskValues, b: TaskValues, seed: int = 0, level: float = 0.95) -> Comparison:
    """Compare two modes on the same tasks: 10,000 resamples of tasks with replacement.

    p = twice the smaller share of resampled means on either side of 0 (ties on both sides, one added to numerator and
    denominator so that it is never 0). Raises `EvaluationError` when the panels differ.
    """
    if a.panel_hash != b.panel_hash or set(a.values) != set(b.values):
        raise EvaluationError(
            f"Panels {a.panel_hash} and {b.panel_hash} hold different tasks and cannot be compared; "
            "evaluate both modes on the same panel."
        )
    tasks = sorted(a.values)
    differences = np.array([a.values[task] - b.values[task] for task in tasks])
    means = _resampled_means(differences, np.random.default_rng(seed))
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    tail = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return Comparison(
        difference=float(differences.mean()),
        low=float(low),
        high=float(high),
        p_value=min(1.0, 2 * (tail + 1) / (RESAMPLES + 1)),
        effect=_effect(differences),
        tasks=len(tasks),
    )


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values that control the false discovery rate (step-up), in the order given."""
    m = len(p_values)
    order = sorted(range(m), key=lambda i: p_values[i], reverse=True)
    adjusted, smallest = [0.0] * m, 1.0
    for rank, i in enumerate(order):
        smallest = min(smallest, p_values[i] * m / (m - rank))
        adjusted[i] = smallest
    return adjusted


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values that control the family-wise error rate (step-down), in the order given."""
    m = len(p_values)
    adjusted, largest = [0.0] * m, 0.0
    for rank, i in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (m - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def _resampled_means(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if not len(values):
        raise EvaluationError("There are no tasks to compare; evaluate a panel with tasks.")
    chunks = range(0, RESAMPLES, _CHUNK)
    return np.concatenate([values[rng.integers(len(values), size=(_CHUNK, len(values)))].mean(axis=1) for _ in chunks])


def _effect(differences: np.ndarray) -> float | None:
    spread = float(differences.std(ddof=1)) if len(differences) > 1 else 0.0
    if spread < 1e-12:
        return 0.0 if abs(float(differences.mean())) < 1e-12 else None
    return float(differences.mean()) / spread
