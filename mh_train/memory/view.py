"""What episodes see of the bank: an immutable set of retrievable records with their vectors and BM25 statistics.

Why: 128 episodes search at once while nothing may change under them; the owner makes a new view at each update
boundary. Invariants: rows are the active and summary records, sorted by id; nothing in a view can be written; a view
can be sent to another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mh_train.agent.types import HitRole, MemoryQuery
from mh_train.memory.embed import Fingerprint
from mh_train.memory.events import BankState
from mh_train.memory.index import Bm25, Postings, cosines, rounded, words
from mh_train.memory.records import LABEL_WORTH, Record

ROLES: tuple[HitRole, ...] = ("positive", "summary", "guard")


@dataclass(frozen=True)
class Relevance:
    """(q, n) scores of q queries over the n rows of a view; rows that a query may not see are -inf in `total`."""

    total: np.ndarray
    cosine: np.ndarray
    lexical: np.ndarray | None


@dataclass(frozen=True)
class Columns:
    """The raw terms of the retrieval score that do not depend on the query, each (n,) float64.

    quality; recency (update of learning or verification); use (utility s); conflict (live records it lost to); stale
    (updates since the last sign of life); risk ((1 - c)/2 + (1 - label worth)/2, with c and worth 1/2 when unverified);
    vague (1 / (1 + named conditions and options)); confidence (0 when unverified); safe (confidence; -1 after a
    verified failure, inf when unverified)."""

    quality: np.ndarray
    recency: np.ndarray
    use: np.ndarray
    conflict: np.ndarray
    stale: np.ndarray
    risk: np.ndarray
    vague: np.ndarray
    confidence: np.ndarray
    safe: np.ndarray


class BankView:
    """The retrievable records at one boundary. `update` is the update they are from (-1: empty bank)."""

    def __init__(self, state: BankState, fingerprint: Fingerprint) -> None:
        chosen = sorted((r for r in state.records.values() if r.retrievable), key=lambda r: r.id)
        self.records: tuple[Record, ...] = tuple(chosen)
        self.fingerprint = fingerprint
        self.update = state.update
        self.matrix = np.zeros((len(chosen), fingerprint.dim), dtype=np.float32)
        for vector, record in zip(self.matrix, chosen, strict=True):
            vector[:] = state.vectors[record.id]
        self.matrix.flags.writeable = False
        self.bm25 = Bm25([record.lexical_text() for record in chosen])
        names = np.array([record.env for record in chosen], dtype=object)
        self.elsewhere = {env: np.flatnonzero(names != env) for env in sorted(set(names))}
        self.tasks: dict[str, list[int]] = {}
        for row, record in enumerate(chosen):
            for source in record.provenance:
                self.tasks.setdefault(source.task, []).append(row)
        roles = np.array([role(record) for record in chosen], dtype=object)
        self.rows_of: dict[HitRole, np.ndarray] = {n: np.flatnonzero(roles == n) for n in ROLES if n in roles}
        types = np.array([record.task_type for record in chosen], dtype=object)
        self.of_type = {name: np.asarray(types == name, dtype=float) for name in sorted(set(types))}
        conditions = [(row, r.signature.condition) for row, r in enumerate(chosen)]
        shares = ((word, row, 1 / len(named)) for row, named in conditions for word in named)
        self.conditions = Postings(shares, len(chosen))
        self.unconditional = np.array([not condition for _, condition in conditions], dtype=float)
        self.columns = columns(chosen, state.update)

    def __len__(self) -> int:
        return len(self.records)

    def relevance(
        self,
        vectors: np.ndarray,
        queries: Sequence[MemoryQuery],
        lexical_weight: float,
        exclude_same_task: bool = False,
        only_same_task: bool = False,
        rows: Sequence[np.ndarray] | None = None,
    ) -> Relevance:
        """Relevance r of every row to q queries with embeddings `vectors` (q, d).

        r = cosine, or with `lexical_weight` w > 0 the hybrid (1 - w) max(cosine, 0) + w BM25 in units of the query's
        idf mass (SPEC 5). Records of another environment, with `exclude_same_task` those learnt from the very task, and
        with `only_same_task` all others, are hidden; with `rows` (one array of rows per query, found by a search
        engine) all but these.
        """
        if rows is None:
            cosine = cosines(vectors, self.matrix)
        else:
            cosine = np.zeros((len(queries), len(self)), dtype=np.float32)
            for i, found in enumerate(rows):
                cosine[i, found] = cosines(vectors[i : i + 1], self.matrix[found])
        lexical = self.bm25.scores([query.text for query in queries]) if lexical_weight > 0 else None
        if lexical is None:
            total = rounded(cosine)
        else:
            total = rounded((1 - lexical_weight) * np.maximum(cosine, 0) + lexical_weight * lexical)
        for row, query in zip(total, queries, strict=True):
            row[self.elsewhere.get(query.env, slice(None))] = -np.inf
            if exclude_same_task:
                row[self.tasks.get(query.task_id, [])] = -np.inf
            if only_same_task:
                row[np.setdiff1d(np.arange(len(row)), self.tasks.get(query.task_id, []))] = -np.inf
        for row, found in zip(total, rows or [], strict=False):
            shown = row[found]
            row[:] = -np.inf
            row[found] = shown
        return Relevance(total, cosine, lexical)

    def applicability(self, queries: Sequence[MemoryQuery]) -> np.ndarray:
        """p (q, n): half for the same task type, half for the share of the record's condition words that the task, the
        observation or the query names (all of them when it has none)."""
        said = [dict.fromkeys(words(f"{query.goal} {query.observation} {query.text}")) for query in queries]
        out = self.conditions.totals(said)
        out += self.unconditional
        for row, query in zip(out, queries, strict=True):
            row += self.of_type.get(query.task_type, 0.0)
        out /= 2
        return out


def role(record: Record) -> HitRole:
    """How a record is injected: failure memories as guards, summaries and all others as suggestions."""
    if record.type == "failure_avoidance":
        return "guard"
    return "summary" if record.state == "summary" else "positive"


def columns(records: Sequence[Record], update: int) -> Columns:
    """The query-independent score terms of records in row order."""
    live = {record.id for record in records}
    judged = [
        (r.descriptor.confidence, LABEL_WORTH[r.descriptor.label]) if r.descriptor else (0.5, 0.5) for r in records
    ]
    confidence, worth = np.array(judged, dtype=float).reshape(-1, 2).T
    verified = [r.descriptor is not None for r in records]

    def column(values: list[float]) -> np.ndarray:
        return np.array(values, dtype=float)

    return Columns(
        quality=column([r.quality for r in records]),
        recency=column([max(r.created, r.verified) for r in records]),
        use=column([r.usage.utility for r in records]),
        conflict=column([sum(other in live for other in r.lost_to) for r in records]),
        stale=column([max(update - r.last_sign, 0) for r in records]),
        risk=(1 - confidence) / 2 + (1 - worth) / 2,
        vague=column([1 / (1 + len(r.signature.condition) + len(r.signature.options)) for r in records]),
        confidence=np.where(verified, confidence, 0.0),
        safe=np.where(verified, np.where(worth > 0, confidence, -1.0), np.inf),
    )
