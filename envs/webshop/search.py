"""The search engine: Lucene's top 50 for a query, from memory-mapped postings, skipping what cannot matter.

How: terms are read from the rarest on. Once the 50th best score so far exceeds all that the remaining terms could give
a document not yet seen, no new document can enter; the remaining terms are only looked up for documents still in the
race (MaxScore). Invariant: the result equals scoring every document, ties by asin, because all bounds are bounds.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from envs.webshop import bm25
from envs.webshop.analyzer import analyze
from envs.webshop.store import Store

RESULTS = 50
MOST_TERMS = 1024
"""Lucene refuses a query of more distinct terms."""
_SLACK = 1e-5
"""Relative: how far rounding to single precision can move a bound."""
_NO_SCORE = 1e-30
"""Below every impact and above zero."""
_LONG = 2000
"""Postings of a term from which on it pays to ask whether they can be skipped."""
_DENSE = 50
"""With more than 1/50 of all products seen, a scan over all scores is cheaper than sorting the rows seen."""


class TooManyTermsError(ValueError):
    """The query has more distinct terms than Lucene takes."""


@dataclass(frozen=True)
class _Term:
    documents: NDArray[np.int32]
    impacts: NDArray[np.float32]
    most: float


class Searcher:
    """Ranks the products of one store. One per process; not for several threads at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._scores = np.zeros(len(store), dtype=np.float64)
        self._place = functools.lru_cache(maxsize=1 << 16)(self._find)

    def search(self, query: str, k: int = RESULTS) -> list[int]:
        """The rows of the best k products for a query, best first; fewer when fewer match.

        Raises `TooManyTermsError` beyond `MOST_TERMS` distinct terms.
        """
        counts = Counter(analyze(query))
        if len(counts) > MOST_TERMS:
            raise TooManyTermsError(f"{len(counts)} distinct terms; at most {MOST_TERMS} can be searched for.")
        terms = [found for term, count in counts.items() if (found := self._term(term, count))]
        terms.sort(key=lambda term: len(term.documents))
        if not terms:
            return []
        rows, scores = self._race(terms, k)
        return self._best(rows, scores, k)

    def _find(self, term: str) -> tuple[int, int, float] | None:
        """Start and end of a term's postings and its highest impact; None for a term in no product."""
        at = self._store.terms.find(term)
        if at is None:
            return None
        starts = self._store.posting_start
        return int(starts[at]), int(starts[at + 1]), float(self._store.term_most[at])

    def _term(self, term: str, repeats: int) -> _Term | None:
        found = self._place(term)
        if found is None:
            return None
        start, end, most = found
        store = self._store
        documents = store.posting_row[start:end]
        if repeats == 1:
            return _Term(documents, store.posting_impact[start:end], most)
        weight = np.float32(repeats) * bm25.inverse_frequencies(store.searchable, np.array([end - start]))[0]
        impacts = bm25.impacts(weight, store.posting_count[start:end], store.inverse_norms[store.lengths[documents]])
        return _Term(documents, impacts, float(impacts.max()))

    def _race(self, terms: list[_Term], k: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Rows that may be among the best k, and their full scores."""
        scores = self._scores
        left = sum(term.most for term in terms)
        seen: list[NDArray[np.int32]] = []
        bar = -1.0
        next_term = 0
        for term in terms:
            if bar > left * (1 + _SLACK):
                break
            scores[term.documents] += term.impacts
            seen.append(term.documents)
            left -= term.most
            next_term += 1
            if next_term < len(terms) and len(terms[next_term].documents) >= _LONG:
                bar = max(bar, _kth_best(scores[term.documents], k))
        rows, found = self._collect(seen, bar * (1 - _SLACK) - left * (1 + _SLACK))
        for term in terms[next_term:]:
            bar = max(bar, _kth_best(found, k))
            alive = found + left * (1 + _SLACK) >= bar * (1 - _SLACK)
            rows, found = rows[alive], found[alive]
            at = np.searchsorted(term.documents, rows)
            at[at == len(term.documents)] = 0
            hit = term.documents[at] == rows
            found[hit] += term.impacts[at[hit]]
            left -= term.most
        return rows, found

    def _collect(self, seen: list[NDArray[np.int32]], least: float) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Rows seen so far with a score of at least `least`; the scores are set back to zero."""
        scores = self._scores
        if sum(map(len, seen)) > len(scores) / _DENSE:
            rows = np.flatnonzero(scores >= max(least, _NO_SCORE)).astype(np.int32)
            found = scores[rows]
            scores[:] = 0.0
        else:
            rows = np.unique(np.concatenate(seen))
            found = scores[rows]
            scores[rows] = 0.0
        return rows, found

    def _best(self, rows: NDArray[np.int32], found: NDArray[np.float64], k: int) -> list[int]:
        scores = found.astype(np.float32)
        if len(rows) > k:
            keep = scores >= np.partition(scores, len(rows) - k)[len(rows) - k]
            rows, scores = rows[keep], scores[keep]
        order = np.lexsort((self._store.asin_rank[rows], -scores))
        return [int(row) for row in rows[order[:k]]]


def _kth_best(scores: NDArray[np.float64], k: int) -> float:
    """The k-th highest score, or -1 when there are fewer."""
    return float(np.partition(scores, len(scores) - k)[len(scores) - k]) if len(scores) >= k else -1.0
