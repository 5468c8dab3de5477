"""Effect sizes and averages by name: how large a difference is, beside how sure (MemGuard E.5, SPEC 7).

Why: with thousands of tasks everything is significant; a table also says how much. Macro (mean over task types) and
micro (mean over tasks) averages differ as soon as types differ in size, so neither is ever called just "average".
Invariant: pure functions of their numbers; nothing here draws at random.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mh_train.evaluate.statistics import EvaluationError, mean_std

Z95 = 1.959963984540054


@dataclass(frozen=True)
class OddsRatio:
    """Odds of success of a over those of b, with the limits of its interval."""

    ratio: float
    low: float
    high: float


def micro(values: Mapping[str, float]) -> float:
    """Mean over tasks: every task weighs the same."""
    return mean_std(list(values.values()))[0]


def macro(values: Mapping[str, float], types: Mapping[str, str]) -> float:
    """Mean over task types of the means within each: every type weighs the same (MemHarness table 1, "Avg. SR").

    `values` and `types` are keyed by task id. Raises `EvaluationError` for a task without a type."""
    missing = sorted(values.keys() - types.keys())
    if missing:
        raise EvaluationError(f"Task {missing[0]} has no type, so there is no macro average; give every task a type.")
    by_type: dict[str, list[float]] = {}
    for task, value in values.items():
        by_type.setdefault(types[task], []).append(value)
    return mean_std([mean_std(found)[0] for found in by_type.values()])[0]


def same_panel(hashes: Iterable[str]) -> str:
    """The one panel hash of several results. Raises `EvaluationError` when there are more: they are of other tasks."""
    found = sorted(set(hashes))
    if len(found) != 1:
        raise EvaluationError(
            f"These results are of different panels ({', '.join(found) or 'none'}) and cannot be compared; evaluate "
            "all of them on the same split, data and evaluate.limit."
        )
    return found[0]


def cohens_h(a: float, b: float) -> float:
    """Cohen's h of two success shares in [0, 1]: 2 asin sqrt(a) - 2 asin sqrt(b); .2 small, .5 medium, .8 large."""
    for share in (a, b):
        if not 0 <= share <= 1:
            raise EvaluationError(f"{share} is not a share of successes; Cohen's h needs values between 0 and 1.")
    return 2 * math.asin(math.sqrt(a)) - 2 * math.asin(math.sqrt(b))


def cohens_d(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Cohen's d of two independent samples: difference of means over the pooled standard deviation (n - 1).

    None when neither sample has any spread. The paired d is `Comparison.effect` of `statistics.paired_bootstrap`."""
    (mean_a, std_a), (mean_b, std_b) = mean_std(a), mean_std(b)
    if std_a is None or std_b is None:
        raise EvaluationError("Cohen's d needs at least two values on each side; run more seeds.")
    free = len(a) + len(b) - 2
    pooled = math.sqrt(((len(a) - 1) * std_a**2 + (len(b) - 1) * std_b**2) / free)
    return (mean_a - mean_b) / pooled if pooled > 0 else None


def odds_ratio(won_a: int, n_a: int, won_b: int, n_b: int, z: float = Z95) -> OddsRatio:
    """Odds ratio of two success counts with Woolf's interval (95 % by default).

    One half is added to all four counts when one of them is 0 (Haldane and Anscombe)."""
    counts = [won_a, n_a - won_a, won_b, n_b - won_b]
    if min(counts) < 0 or not n_a or not n_b:
        raise EvaluationError(f"{won_a} of {n_a} against {won_b} of {n_b} are no success counts.")
    a, b, c, d = (count + 0.5 for count in counts) if min(counts) == 0 else counts
    log = math.log(a * d / (b * c))
    half = z * math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)
    return OddsRatio(math.exp(log), math.exp(log - half), math.exp(log + half))
