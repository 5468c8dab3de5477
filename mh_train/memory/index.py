"""In-process relevance: exact cosine and global BM25 over a bank's records, for a whole batch of queries, in numpy.

Why: at a bank's size (hundreds to thousands of records) this is 30 to 100 times faster than a store's own search, and
BM25 statistics are global, so that a restored bank ranks as the saved one did (Milvus Lite's are per segment).
Invariants: scores are rounded to 1e-6 before anything is ranked and ties keep row order (rows are sorted by record
id), so that neither batching nor the BLAS in use changes a ranking. Nothing here changes after construction.
Run: `python tests/bench/bench_memory.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

K1, B = 1.2, 0.75
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Lower-case words and numbers of a text, in order."""
    return _WORD.findall(text.lower())


class Bm25:
    """BM25 (k1 = 1.2, b = 0.75) over n documents, as postings: term -> (rows, weights)."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(words(text)) for text in texts]
        self.size = len(texts)
        lengths = np.array([sum(count.values()) for count in counts], dtype=np.float64)
        mean = lengths.mean() if self.size and lengths.sum() else 1.0
        rows: dict[str, list[tuple[int, int]]] = {}
        for row, count in enumerate(counts):
            for term, times in count.items():
                rows.setdefault(term, []).append((row, times))
        self.postings: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.idf: dict[str, float] = {}
        for term, found in rows.items():
            where, counted = np.array(found).T
            times = counted.astype(np.float64)
            idf = float(np.log1p((self.size - len(found) + 0.5) / (len(found) + 0.5)))
            norm = times + K1 * (1 - B + B * lengths[where] / mean)
            self.idf[term] = idf
            self.postings[term] = (where, (idf * times * (K1 + 1) / norm).astype(np.float32))
        self.unseen_idf = float(np.log1p((self.size + 0.5) / 0.5))

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        """(q, n) float32 in [0, 1]: BM25 as a share of the query's idf mass.

        1 means that a document of average length holds every query word; words that no record holds count as missed.
        """
        out = np.zeros((len(texts), self.size), dtype=np.float32)
        for row, text in zip(out, texts, strict=True):
            terms = dict.fromkeys(words(text))
            found = [self.postings[term] for term in terms if term in self.postings]
            if found:
                where, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
                mass = sum(self.idf.get(term, self.unseen_idf) for term in terms)
                row[:] = np.bincount(where, weights, self.size) / mass
        return np.minimum(out, 1.0, out=out)


def cosines(vectors: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """(q, d) x (n, d), both L2-normalised -> (q, n) float32 cosines."""
    return np.clip(vectors @ matrix.T, -1.0, 1.0).astype(np.float32)


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
