"""The door from episodes to the bank: `MemoryReader` over an immutable view.

Why: an episode asks one question; the reader embeds and ranks all questions that are waiting in one go, and can do
nothing but read. Ranking: relevance -> pool -> drop near-copies of better hits -> the k best, ties by id (SPEC 4).
Invariants: what a query gets depends on the query and the view alone, not on what else was asked; evaluation cannot
change a byte of the bank, for there is no way from here to its owner.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from mh_train.agent.types import HitRole, MemoryHit, MemoryQuery
from mh_train.config.schema import MemoryConfig
from mh_train.memory.embed import Embedder
from mh_train.memory.index import rounded
from mh_train.memory.milvus_search import MilvusSearch
from mh_train.memory.records import MemoryStoreError, Record
from mh_train.memory.scoring import Scored, score_guards, score_plain, score_positive
from mh_train.memory.view import BankView, Relevance


@dataclass
class ReaderStats:
    """Counters of one reader: questions, questions with at least one hit, seconds of embedding and of ranking."""

    queries: int = 0
    with_hits: int = 0
    embed_seconds: float = 0.0
    rank_seconds: float = 0.0

    @classmethod
    def total(cls, parts: Sequence[ReaderStats]) -> ReaderStats:
        """The counters of several readers as those of one."""
        return cls(*(sum(getattr(part, field.name) for part in parts) for field in fields(cls)))

    def metrics(self) -> dict[str, float]:
        """numbers of everything asked so far."""
        asked = max(self.queries, 1)
        return {
            "memory/queries": float(self.queries),
            "memory/hit_rate": self.with_hits / asked,
            "time/embed_ms": 1000 * self.embed_seconds / asked,
            "time/rank_ms": 1000 * self.rank_seconds / asked,
        }


class BankReader:
    """Answers queries from one view. `training` switches `memory.exclude_same_task` on; with `search`, Milvus finds the
    candidates."""

    def __init__(
        self,
        view: BankView,
        embedder: Embedder,
        config: MemoryConfig,
        *,
        training: bool = False,
        search: MilvusSearch | None = None,
    ) -> None:
        if view.fingerprint != embedder.fingerprint:
            raise MemoryStoreError(
                f"The bank view was made with embedder {view.fingerprint}, the reader has "
                f"{embedder.fingerprint}; choose the same memory.embedder."
            )
        self.view = view
        self.embedder = embedder
        self.config = config
        self.finder = search
        self.exclude_same_task = training and config.exclude_same_task
        self.stats = ReaderStats()
        self._batch: tuple[list[MemoryQuery], asyncio.Task[list[list[MemoryHit]]]] | None = None

    async def retrieve(self, query: MemoryQuery) -> Sequence[MemoryHit]:
        """The hits of one query. Queries of one turn of the event loop are embedded and ranked together."""
        if not len(self.view):
            self.stats.queries += 1
            return []
        if self._batch is None:
            asked: list[MemoryQuery] = []
            self._batch = (asked, asyncio.create_task(self._answer(asked)))
        queries, task = self._batch
        queries.append(query)
        place = len(queries) - 1
        return (await asyncio.shield(task))[place]

    def search(self, queries: Sequence[MemoryQuery]) -> list[list[MemoryHit]]:
        """Embed and rank q queries; one hit list each."""
        started = time.perf_counter()
        vectors = self.embedder.encode([query.text for query in queries])
        embedded = time.perf_counter()
        hits = self.rank(vectors, queries)
        self.stats.queries += len(queries)
        self.stats.with_hits += sum(bool(found) for found in hits)
        self.stats.embed_seconds += embedded - started
        self.stats.rank_seconds += time.perf_counter() - embedded
        return hits

    def rank(self, vectors: np.ndarray, queries: Sequence[MemoryQuery]) -> list[list[MemoryHit]]:
        """Rank q queries with embeddings (q, d): at most k positives, then summaries, then guards."""
        config, view = self.config, self.view
        weight = config.lexical_weight if config.hybrid else 0.0
        rows = None if self.finder is None else self.finder.rows(view, vectors, queries, weight > 0)
        relevance = view.relevance(vectors, queries, weight, self.exclude_same_task, config.only_same_task, rows)
        budgets = {"positive": config.k, "summary": config.scoring.summaries, "guard": config.scoring.guards}
        found: list[list[MemoryHit]] = [[] for _ in queries]
        for role, scored in self.score(relevance, queries).items():
            for query, hits in enumerate(found):
                order = scored.order(query)
                kept = order[distinct(view.matrix, scored.rows[query, order], config.dedup.read, budgets[role])]
                rows = scored.rows[query, kept].tolist()
                scores = scored.scores[query, kept].tolist()
                terms = rounded(scored.shares[query, kept]).tolist()
                for row, score, shares in zip(rows, scores, terms, strict=True):
                    shown = dict(zip(scored.names, shares, strict=True))
                    hits.append(hit_of(view.records[row], role, score, shown))
        return found

    def score(self, relevance: Relevance, queries: Sequence[MemoryQuery]) -> dict[HitRole, Scored]:
        """The candidates of each role with their scores and terms, by the rule that `memory.scoring` chooses."""
        config, view = self.config, self.view
        if not config.scoring.enabled:
            size, weight = max(config.dedup.pool, config.k), config.lexical_weight
            return {role: score_plain(view, role, relevance, size, weight) for role in view.rows_of}
        p = view.applicability(queries)
        return {
            role: score_guards(view, relevance.total, p, config.scoring)
            if role == "guard"
            else score_positive(view, role, relevance.total, p, config.scoring)
            for role in view.rows_of
        }

    async def _answer(self, queries: list[MemoryQuery]) -> list[list[MemoryHit]]:
        """Close the batch (later queries make the next one) and search."""
        self._batch = None
        return await asyncio.to_thread(self.search, queries) if self.embedder.slow else self.search(queries)


def distinct(matrix: np.ndarray, rows: np.ndarray, threshold: float | None, most: int) -> np.ndarray:
    """Positions of the first `most` of the rows (best first), skipping those whose cosine to a better kept row is above
    the threshold (none without one)."""
    first = np.arange(min(len(rows), most))
    if threshold is None:
        return first
    best = matrix[rows[first]]
    alike = best @ best.T
    alike.ravel()[:: len(first) + 1] = -1.0
    if not (alike > threshold).any():  # the common case, without looking at one after the other
        return first
    kept: list[int] = []
    for i, row in enumerate(rows):
        if len(kept) == most:
            break
        if not kept or (matrix[rows[kept]] @ matrix[row]).max() <= threshold:
            kept.append(i)
    return np.array(kept, dtype=np.intp)


def hit_of(record: Record, role: HitRole, score: float, terms: dict[str, float]) -> MemoryHit:
    """A record as a prompt needs it: advice with its condition, or what to check before acting."""
    memory = record.content
    if role == "guard" and record.guard_condition not in ("", memory):
        memory = f"{record.guard_condition}: {memory}"
    elif role != "guard" and record.applicability:
        memory = f"{memory} (when: {record.applicability})"
    return MemoryHit(record.id, memory, record.source_state, role, record.title, score, terms)
