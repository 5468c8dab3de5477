"""Governed retrieval (SPEC 5, MemGuard Eq. 3 and 4): pool -> hard filter -> S+ / S- -> injection budgets, for a batch.

Why: a relevant record that is unproven, refuted or stale must not come first; what warns must not read like advice.
Two paths, each with its own pool (so that many hints cannot crowd the guards out): hints and summaries by S+, guards
by S-. Every term is min-max normalised over the records of its pool that pass the filter; a term without spread
counts 0. Invariants: archived and provisional records are in no view, so never here; unsafe ones (verified failure,
low confidence) never pass; scores are rounded to 1e-6 and ties go to the smaller id; a hit's `terms` sum to its score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mh_train.agent.types import HitRole
from mh_train.config.schema import ScoringConfig
from mh_train.memory.index import pools, rounded
from mh_train.memory.view import BankView, Relevance

POSITIVE = ("relevance", "quality", "applicability", "recency", "use", "conflict", "staleness", "risk")
GUARD = ("relevance", "quality", "applicability", "conflict", "staleness", "vagueness")


@dataclass(frozen=True)
class Scored:
    """One path's candidates for q queries: rows in the view (q, m), ascending by id; whether each passes the hard
    filter; its score; and the signed shares (q, m, t) of the named terms in it."""

    rows: np.ndarray
    valid: np.ndarray
    scores: np.ndarray
    shares: np.ndarray
    names: tuple[str, ...]
    ranked: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        order = np.argsort(-np.where(self.valid, self.scores, -np.inf), axis=1, kind="stable")
        object.__setattr__(self, "ranked", order)

    def order(self, query: int) -> np.ndarray:
        """Candidate positions of one query, best first, ties to the smaller id; filtered ones are left out."""
        return self.ranked[query, : self.valid[query].sum()]

    def terms(self, query: int, position: int) -> dict[str, float]:
        """The signed share of each term; they sum to the score."""
        return dict(zip(self.names, rounded(self.shares[query, position]).tolist(), strict=True))


def score_positive(
    view: BankView, role: HitRole, relevance: np.ndarray, applicability: np.ndarray, config: ScoringConfig
) -> Scored:
    """S+ (Eq. 3) of hints or summaries; `relevance` and `applicability` (q, n), hidden rows at -inf."""
    rows, valid = pool(view, role, relevance, config.pool)
    found, c = picked(relevance, rows), view.columns
    valid &= (found >= config.min_relevance) & (c.safe[rows] >= config.min_confidence)
    raw = (
        found,
        c.quality[rows],
        picked(applicability, rows),
        c.recency[rows],
        c.use[rows],
        c.conflict[rows],
        c.stale[rows],
        c.risk[rows],
    )
    return _scored(rows, valid, raw, config.positive, config.risk, POSITIVE)


def score_guards(view: BankView, relevance: np.ndarray, applicability: np.ndarray, config: ScoringConfig) -> Scored:
    """S- (Eq. 4) of failure-avoidance records that reach the guard thresholds for r and c."""
    rows, valid = pool(view, "guard", relevance, config.pool)
    found, c = picked(relevance, rows), view.columns
    valid &= (found >= config.guard_relevance) & (c.confidence[rows] >= config.guard_confidence)
    raw = (
        found,
        c.quality[rows],
        picked(applicability, rows),
        c.conflict[rows],
        c.stale[rows],
        c.vague[rows],
    )
    return _scored(rows, valid, raw, config.guard, config.guard_risk, GUARD)


def score_plain(view: BankView, role: HitRole, relevance: Relevance, size: int, lexical_weight: float) -> Scored:
    """Relevance alone (MemHarness; semantic-only retrieval): the score is its cosine and BM25 shares."""
    rows, valid = pool(view, role, relevance.total, size)
    scores = picked(relevance.total, rows)
    cosine = picked(relevance.cosine, rows)
    if relevance.lexical is None:
        return Scored(rows, valid, scores, cosine[..., None], ("cosine",))
    lexical = picked(relevance.lexical, rows)
    shares = np.stack([(1 - lexical_weight) * np.maximum(cosine, 0), lexical_weight * lexical], axis=-1)
    return Scored(rows, valid, scores, shares, ("cosine", "lexical"))


def pool(view: BankView, role: HitRole, relevance: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The `size` most relevant rows of one role for each query, ascending, and which of them are real."""
    mine = view.rows_of[role]
    rows, valid = pools(relevance if len(mine) == len(view) else relevance[:, mine], size)
    return mine[rows], valid


def picked(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(q, n) values at (q, m) rows."""
    return values[np.arange(len(rows))[:, None], rows]


def normalise(values: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Min-max over the valid entries of each row of (..., q, m); 0 where a row has no spread, and at invalid
    entries."""
    if not values.shape[-1]:
        return np.zeros(values.shape)
    low = values.min(axis=-1, keepdims=True, where=valid, initial=np.inf)
    high = values.max(axis=-1, keepdims=True, where=valid, initial=-np.inf)
    spread = high > low
    return np.where(valid & spread, values - low, 0.0) / np.where(spread, high - low, 1.0)


def _scored(
    rows: np.ndarray,
    valid: np.ndarray,
    raw: Sequence[np.ndarray],
    gains: Sequence[float],
    losses: Sequence[float],
    names: tuple[str, ...],
) -> Scored:
    values = np.array(raw)
    values[:, ~valid] = 0.0
    shares = normalise(values, valid).transpose(1, 2, 0) * np.array([*gains, *(-loss for loss in losses)])
    return Scored(rows, valid, np.round(shares.sum(axis=-1), 6), shares, names)
