"""Governed retrieval (SPEC 5, MemGuard Eq. 3 and 4): pool -> hard filter -> S+ / S- -> injection budgets, for a whole
batch.

Why: a relevant record that is unproven, refuted or stale must not come first; what warns must not read like advice.
Two paths, each with its own pool (so that many hints cannot crowd the guards out): hints and summaries by S+, guards
by S-. Every term is min-max normalised over the records of its pool that pass the filter; a term without spread
counts 0. Invariants: archived and provisional records are in no view, so never here; unsafe ones (verified failure,
low confidence) never pass; scores are rounded to 1e-6 and ties go to the smaller id; a hit's `terms` sum to its score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mh_train.agent.types import MemoryQuery
from mh_train.config.schema import ScoringConfig
from mh_train.memory.index import top_rows, words
from mh_train.memory.view import BankView, Relevance

POSITIVE = ("relevance", "quality", "applicability", "recency", "use", "conflict", "staleness", "risk")
GUARD = ("relevance", "quality", "applicability", "conflict", "staleness", "vagueness")


@dataclass(frozen=True)
class Scored:
    """One path's candidates for q queries, all (q, m): rows in the view (ascending by id), whether each passes the hard
    filter, raw and normalised terms (t, q, m), signed weights (t,), and the scores."""

    rows: np.ndarray
    valid: np.ndarray
    raw: np.ndarray
    normalised: np.ndarray
    weights: np.ndarray
    scores: np.ndarray
    names: tuple[str, ...]

    def order(self, query: int) -> np.ndarray:
        """Candidate positions of one query, best first, ties to the smaller id; filtered ones are left out."""
        ranked = np.argsort(-np.where(self.valid[query], self.scores[query], -np.inf), kind="stable")
        return ranked[: int(self.valid[query].sum())]

    def terms(self, query: int, position: int) -> dict[str, float]:
        """The signed contribution of each term; they sum to the score."""
        shares = self.weights * self.normalised[:, query, position]
        return dict(zip(self.names, shares.tolist(), strict=True))


def score_positive(
    view: BankView, relevance: np.ndarray, queries: Sequence[MemoryQuery], config: ScoringConfig
) -> Scored:
    """S+ (Eq. 3) of hints and summaries; `relevance` (q, n) with hidden and foreign rows at -inf."""
    rows, valid = pool(relevance, config.pool)
    found, c = np.take_along_axis(relevance, rows, axis=1), view.columns
    valid &= (found >= config.min_relevance) & (c.safe[rows] >= config.min_confidence)
    raw = (
        found,
        c.quality[rows],
        applicability(view, rows, queries),
        c.recency[rows],
        c.use[rows],
        c.conflict[rows],
        c.stale[rows],
        c.risk[rows],
    )
    return _scored(rows, valid, raw, config.positive, config.risk, POSITIVE)


def score_guards(
    view: BankView, relevance: np.ndarray, queries: Sequence[MemoryQuery], config: ScoringConfig
) -> Scored:
    """S- (Eq. 4) of failure-avoidance records that reach the guard thresholds for r and c."""
    rows, valid = pool(relevance, config.pool)
    found, c = np.take_along_axis(relevance, rows, axis=1), view.columns
    valid &= (found >= config.guard_relevance) & (c.confidence[rows] >= config.guard_confidence)
    raw = (
        found,
        c.quality[rows],
        applicability(view, rows, queries),
        c.conflict[rows],
        c.stale[rows],
        c.vague[rows],
    )
    return _scored(rows, valid, raw, config.guard, config.guard_risk, GUARD)


def score_plain(relevance: Relevance, visible: np.ndarray, size: int, lexical_weight: float) -> Scored:
    """Relevance alone (MemHarness; semantic-only retrieval): the score is its cosine and BM25 shares."""
    rows, valid = pool(visible, size)
    cosine = np.take_along_axis(relevance.cosine, rows, axis=1)
    scores = np.take_along_axis(visible, rows, axis=1)
    if relevance.lexical is None:
        return Scored(rows, valid, cosine[None], cosine[None], np.ones(1), scores, ("cosine",))
    raw = np.stack([np.maximum(cosine, 0), np.take_along_axis(relevance.lexical, rows, axis=1)])
    weights = np.array([1 - lexical_weight, lexical_weight])
    return Scored(rows, valid, raw, raw, weights, scores, ("cosine", "lexical"))


def pool(relevance: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The `size` most relevant rows of each query, ascending, (q, m); and which of them are real (the rest is
    padding)."""
    best = [np.sort(top_rows(scores, size)) for scores in relevance]
    width = max((len(rows) for rows in best), default=0)
    rows = np.zeros((len(best), width), dtype=np.intp)
    valid = np.zeros((len(best), width), dtype=bool)
    for i, found in enumerate(best):
        rows[i, : len(found)] = found
        valid[i, : len(found)] = True
    return rows, valid


def applicability(view: BankView, rows: np.ndarray, queries: Sequence[MemoryQuery]) -> np.ndarray:
    """p (q, m): half for the same task type, half for the share of the record's condition words that the task or the
    current observation names (all of them when it has none)."""
    out = np.zeros(rows.shape)
    for i, query in enumerate(queries):
        said = set(words(f"{query.goal} {query.observation} {query.text}"))
        for j, row in enumerate(rows[i].tolist()):
            record = view.records[row]
            condition = record.signature.condition
            met = sum(word in said for word in condition) / len(condition) if condition else 1.0
            out[i, j] = 0.5 * (record.task_type == query.task_type) + 0.5 * met
    return out


def normalise(values: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Min-max over the valid entries of each row of (..., q, m); 0 where a row has no spread, and at invalid
    entries."""
    low = np.where(valid, values, np.inf).min(axis=-1, keepdims=True, initial=np.inf)
    high = np.where(valid, values, -np.inf).max(axis=-1, keepdims=True, initial=-np.inf)
    span = high - low
    usable = valid & (span > 0) & np.isfinite(span)
    return np.divide(np.where(usable, values - low, 0.0), span, out=np.zeros(values.shape), where=usable)


def _scored(
    rows: np.ndarray,
    valid: np.ndarray,
    raw: Sequence[np.ndarray],
    gains: Sequence[float],
    losses: Sequence[float],
    names: tuple[str, ...],
) -> Scored:
    stacked = np.stack([np.where(valid, values, 0.0) for values in raw])
    normalised = normalise(stacked, valid)
    weights = np.array([*gains, *(-loss for loss in losses)])
    scores = np.round(np.tensordot(weights, normalised, axes=1), 6)
    return Scored(rows, valid, stacked, normalised, weights, scores, names)
