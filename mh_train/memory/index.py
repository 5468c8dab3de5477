"""In-process relevance: exact cosine and global BM25 over a bank's records, for a whole batch of queries, in numpy.

Why: at a bank's size (hundreds to thousands of records) this is 30 to 100 times faster than a store's own search, and
BM25 statistics are global, so that a restored bank ranks as the saved one did (Milvus Lite's are per segment).
Invariants: scores are rounded to 1e-6 before anything is ranked and ties keep row order (rows are sorted by record
id), so that neither batching nor the BLAS in use changes a ranking. Nothing here changes after construction.
Run: `python tests/bench/bench_memory.py`.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np

K1, B = 1.2, 0.75
MOST_ENTRIES = 1 << 20
"""Postings that are summed at a time (24 MB)."""
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Lower-case words and numbers of a text, in order."""
    return _WORD.findall(text.lower())


@lru_cache(maxsize=8192)
def _counts(text: str) -> Mapping[str, int]:
    """How often each word occurs; kept, because most of a bank is the same after an update."""
    return Counter(words(text))


class Postings:
    """An inverted index with weights: each term's rows and weights lie side by side in two flat arrays."""

    def __init__(self, entries: Iterable[tuple[str, int, float]], size: int) -> None:
        """From (term, row, weight) triples over `size` rows."""
        self.size = size
        numbers: dict[str, int] = {}
        terms, rows, weights = array("l"), array("l"), array("d")
        for term, row, weight in entries:
            terms.append(numbers.setdefault(term, len(numbers)))
            rows.append(row)
            weights.append(weight)
        order = np.argsort(np.array(terms), kind="stable")
        self.rows, self.weights = np.array(rows)[order], np.array(weights)[order]
        self.numbers = numbers
        self.lengths = np.bincount(np.array(terms, dtype=np.intp), minlength=len(numbers))
        self.starts = np.cumsum(self.lengths) - self.lengths

    def totals(self, asked: Sequence[Iterable[str]]) -> np.ndarray:
        """(q, n) float64: for each query, the summed weights of its distinct terms in each row.

        Entries of many queries are gathered in one go, at most `MOST_ENTRIES` unless one query has more."""
        out = np.zeros((len(asked), self.size))
        found = [[self.numbers[term] for term in terms if term in self.numbers] for terms in asked]
        largest = max((int(self.lengths[terms].sum()) for terms in found), default=0)
        step = max(1, MOST_ENTRIES // max(1, largest))
        for first in range(0, len(found), step):
            part = found[first : first + step]
            terms = np.fromiter(chain.from_iterable(part), np.intp)
            lengths = self.lengths[terms]
            entries = np.arange(lengths.sum()) + np.repeat(self.starts[terms] - (np.cumsum(lengths) - lengths), lengths)
            queries = np.repeat(np.arange(len(part)), [len(one) for one in part])
            cells = self.rows[entries] + np.repeat(self.size * queries, lengths)
            sums = np.bincount(cells, self.weights[entries], self.size * len(part))
            out[first : first + step] = sums.reshape(len(part), self.size)
        return out


class Bm25:
    """BM25 (k1 = 1.2, b = 0.75) over n documents."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [_counts(text) for text in texts]
        size = len(texts)
        lengths = [sum(count.values()) for count in counts]
        mean = sum(lengths) / size if size and sum(lengths) else 1.0
        frequency = Counter(term for count in counts for term in count)
        self.idf = {term: math.log1p((size - n + 0.5) / (n + 0.5)) for term, n in frequency.items()}
        self.unseen_idf = math.log1p((size + 0.5) / 0.5)
        self.postings = Postings(
            (
                (term, row, self.idf[term] * n * (K1 + 1) / (n + K1 * (1 - B + B * lengths[row] / mean)))
                for row, count in enumerate(counts)
                for term, n in count.items()
            ),
            size,
        )

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        """(q, n) float32: BM25 in units of the query's idf mass.

        1 means that a document of average length holds every query word once; repetition adds to it (at most k1 + 1
        in all), words that no record holds count as missed.
        """
        asked = [dict.fromkeys(words(text)) for text in texts]
        mass = np.array([sum(self.idf.get(term, self.unseen_idf) for term in terms) or 1.0 for terms in asked])
        return (self.postings.totals(asked) / mass[:, None]).astype(np.float32)


def cosines(vectors: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """(q, d) x (n, d), both L2-normalised -> (q, n) float32 cosines."""
    out: np.ndarray = vectors @ matrix.T
    return out.clip(-1.0, 1.0, out=out)


def rounded(scores: np.ndarray) -> np.ndarray:
    """Scores to 1e-6: differences below are rounding of the arithmetic, not of relevance."""
    return np.round(scores, 6)


def top_rows(scores: np.ndarray, k: int) -> np.ndarray:
    """Indices of the k best of (n,) scores, best first, ties in row order; rows at -inf are left out."""
    n = len(scores)
    if n > 4 * k:
        least = np.partition(scores, n - k)[n - k]
        candidates = np.flatnonzero(scores >= least)
    else:
        candidates = np.arange(n)
    order = candidates[np.argsort(-scores[candidates], kind="stable")][:k]
    return order[np.isfinite(scores[order])]


def pools(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The `top_rows` of every row of (q, n) scores in ascending order, (q, min(k, n)), and which of them are real (the
    rest is padding where fewer are finite)."""
    q, n = scores.shape
    rows = np.zeros((q, min(k, n)), dtype=np.intp)
    valid = np.zeros(rows.shape, dtype=bool)
    clear = np.zeros(q, dtype=bool)  # exactly k scores reach the k-th
    if n > k:
        least = np.partition(scores, n - k, axis=1)[:, n - k, None]
        mask = scores >= least
        clear = np.isfinite(least[:, 0]) & (mask.sum(axis=1) == k)
        rows[clear] = np.nonzero(mask[clear])[1].reshape(-1, k)
        valid[clear] = True
    for i in np.flatnonzero(~clear):
        found = np.sort(top_rows(scores[i], k))
        rows[i, : len(found)] = found
        valid[i, : len(found)] = True
    return rows, valid
