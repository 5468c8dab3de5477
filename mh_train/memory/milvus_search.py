"""Milvus finds the candidates of a query, the bank scores them: retrieval for banks too large to scan.

Why: comparing every query with every record grows with the bank; an index does not. What Milvus itself would rank by is
not used, for Lite's BM25 statistics belong to segments and its fused scores to no scale: hits of its dense and of its
BM25 search are pooled per role, then scored by the view as all others are.
Invariant: a query's result is that of the in-process path whenever Milvus finds the records of its pools; on a bank of
at most `WIDTH` records of each role it always does, and scores then agree to 2e-6 (order of summation). Text of a query
travels as data, names in filters as literals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mh_train.agent.types import HitRole, MemoryQuery
from mh_train.memory.milvus import MilvusMirror, literal
from mh_train.memory.view import BankView

WIDTH = 128
"""Hits that are asked for per role, in the dense and in the BM25 search: several times a pool."""
ROLE_FILTERS: dict[HitRole, str] = {
    "positive": 'state == "active" and type != "failure_avoidance"',
    "summary": 'state == "summary" and type != "failure_avoidance"',
    "guard": 'state in ["active", "summary"] and type == "failure_avoidance"',
}
"""The roles of `view.role`, in Milvus' filter language."""


@dataclass(frozen=True)
class MilvusSearch:
    """Finds candidates in a mirror that holds what the view holds."""

    mirror: MilvusMirror
    width: int = WIDTH

    def rows(
        self, view: BankView, vectors: np.ndarray, queries: Sequence[MemoryQuery], lexical: bool
    ) -> list[np.ndarray]:
        """Candidate rows of the view for each of q queries with embeddings (q, d), ascending.

        `lexical` adds those of BM25. Raises `MemoryStoreError` when Milvus fails."""
        place = {record.id: row for row, record in enumerate(view.records)}
        found: list[set[int]] = [set() for _ in queries]
        asking: dict[str, list[int]] = defaultdict(list)
        for i, query in enumerate(queries):
            asking[query.env].append(i)
        for env, members in asking.items():
            data = {"dense": [vectors[i] for i in members]}
            if lexical:
                data["sparse"] = [queries[i].text for i in members]
            for role in view.rows_of:
                condition = f"env == {literal(env)} and {ROLE_FILTERS[role]}"
                for column, asked in data.items():
                    for i, names in zip(members, self.mirror.search(column, asked, condition, self.width), strict=True):
                        found[i].update(place[name] for name in names if name in place)
        return [np.array(sorted(rows), dtype=np.intp) for rows in found]
