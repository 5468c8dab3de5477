"""What episodes see of the bank: an immutable set of retrievable records with their vectors and BM25 statistics.

Why: 128 episodes search at once while nothing may change under them; the owner makes a new view at each update
boundary. Invariants: rows are the active and summary records, sorted by id; nothing in a view can be written; a view
can be sent to another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mh_train.agent.types import MemoryQuery
from mh_train.memory.embed import Fingerprint
from mh_train.memory.events import BankState
from mh_train.memory.index import Bm25, cosines, rounded
from mh_train.memory.records import Record


@dataclass(frozen=True)
class Relevance:
    """(q, n) scores of q queries over the n rows of a view; rows that a query may not see are -inf in `total`."""

    total: np.ndarray
    cosine: np.ndarray
    lexical: np.ndarray | None


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

    def __len__(self) -> int:
        return len(self.records)

    def relevance(
        self,
        vectors: np.ndarray,
        queries: Sequence[MemoryQuery],
        lexical_weight: float,
        exclude_same_task: bool = False,
    ) -> Relevance:
        """Relevance r of every row to q queries with embeddings `vectors` (q, d).

        r = cosine, or with `lexical_weight` w > 0 the hybrid (1 - w) max(cosine, 0) + w BM25 share (SPEC 5, retrieval).
        Records of another environment, and with `exclude_same_task` those learnt from the very task, are hidden.
        """
        cosine = cosines(vectors, self.matrix)
        lexical = self.bm25.scores([query.text for query in queries]) if lexical_weight > 0 else None
        if lexical is None:
            total = rounded(cosine)
        else:
            total = rounded((1 - lexical_weight) * np.maximum(cosine, 0) + lexical_weight * lexical)
        for row, query in zip(total, queries, strict=True):
            row[self.elsewhere.get(query.env, slice(None))] = -np.inf
            if exclude_same_task:
                row[self.tasks.get(query.task_id, [])] = -np.inf
        return Relevance(total, cosine, lexical)
