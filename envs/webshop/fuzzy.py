"""Fuzzy equality of short texts, as thefuzz 0.19 with Python's own difflib scores it (what the original installs).

Invariant: `similar(a, b)` is `token_set_ratio(a, b) > 85` of that library, for any two objects.
"""

from __future__ import annotations

import functools
import re
from difflib import SequenceMatcher

SIMILAR = 85
_LATIN_1 = dict.fromkeys(range(128, 256))
_NOT_WORD = re.compile(r"\W")


@functools.lru_cache(maxsize=1 << 16)
def similar(a: str, b: str) -> bool:
    """Whether two texts are the same but for order, repeats and words that only one of them has, or nearly so."""
    return token_set_ratio(a, b) > SIMILAR


def token_set_ratio(a: str, b: str) -> int:
    """0 to 100: the best match among the shared words, and the shared words with the rest of either text.

    0 when either text holds no word, even if both are the same.
    """
    words_a, words_b = _words(a), _words(b)
    if not words_a or not words_b:
        return 0
    shared = " ".join(sorted(words_a & words_b))
    with_a = f"{shared} {' '.join(sorted(words_a - words_b))}".strip()
    with_b = f"{shared} {' '.join(sorted(words_b - words_a))}".strip()
    return max(_ratio(shared, with_a), _ratio(shared, with_b), _ratio(with_a, with_b))


def _words(text: str) -> set[str]:
    return set(_NOT_WORD.sub(" ", text.translate(_LATIN_1)).lower().split())


def _ratio(a: str, b: str) -> int:
    return 100 if a == b else round(100 * SequenceMatcher(None, a, b).ratio())
