"""BM25 as Lucene computes it, in single precision: document lengths in one byte, k1 = 0.9, b = 0.4.

Invariant: a score is the double-precision sum of single-precision term impacts, cast to single precision; with Lucene's
analyzer in front this reproduces Lucene's ranking including its ties.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

K1 = np.float32(0.9)
B = np.float32(0.4)
_EXACT = 24
"""Lengths below this are stored as they are."""


def length_code(length: int) -> int:
    """A document length (terms) as Lucene's byte: three significant bits and a shift."""
    if length < _EXACT:
        return length
    rest = length - _EXACT
    if rest < 8:
        return _EXACT + rest
    shift = rest.bit_length() - 4
    return _EXACT + (((rest >> shift) & 7) | (shift + 1) << 3)


def code_length(code: int) -> int:
    """The length that a byte stands for (the smallest of those it covers)."""
    if code < _EXACT:
        return code
    rest = code - _EXACT
    shift = (rest >> 3) - 1
    return _EXACT + (rest & 7 if shift < 0 else ((rest & 7) | 8) << shift)


def inverse_norms(documents: int, terms: int) -> NDArray[np.float32]:
    """(256,) 1 / (k1 (1 - b + b length / mean length)) for every length code; counts are of the whole index."""
    mean = np.float32(terms / max(documents, 1)) if terms else np.float32(1)
    lengths = np.array([code_length(code) for code in range(256)], dtype=np.float32)
    one = np.float32(1)
    return one / (K1 * ((one - B) + B * lengths / mean))


def inverse_frequencies(documents: int, found_in: NDArray[np.int64]) -> NDArray[np.float32]:
    """idf (T,) of terms that occur in `found_in` (T,) of the documents."""
    return np.log(1 + (documents - found_in + 0.5) / (found_in + 0.5)).astype(np.float32)


def impacts(
    weights: NDArray[np.float32] | np.float32, counts: NDArray[np.uint16], norms: NDArray[np.float32]
) -> NDArray[np.float32]:
    """What each posting adds to its document's score: idf (times query repeats), term count, inverse norm."""
    return weights - weights / (np.float32(1) + counts.astype(np.float32) * norms)
