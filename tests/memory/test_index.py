"""BM25 and top-k against plain references."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from mh_train.memory import index
from mh_train.memory.index import Bm25, Postings, pools, top_rows, words

DOCUMENTS = [
    "the bread is in the drawer",
    "heat the egg with the microwave",
    "bread bread bread",
    "",
    "look into the fridge",
]


def plain_bm25(query: str, document: str, documents: list[str]) -> float:
    """Robertson's formula, one document at a time."""
    tokens = [words(d) for d in documents]
    mean = sum(map(len, tokens)) / len(tokens)
    counts, total, mass = Counter(words(document)), 0.0, 0.0
    for term in set(words(query)):
        n = sum(term in t for t in tokens)
        idf = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
        mass += idf
        f = counts[term]
        total += idf * f * 2.2 / (f + 1.2 * (0.25 + 0.75 * len(words(document)) / mean))
    return total / mass if mass else 0.0


def test_bm25_is_the_formula_over_the_whole_bank():
    queries = ["where is the bread", "heat egg", "zebra", "", "The BREAD, in a drawer?"]
    scores = Bm25(DOCUMENTS).scores(queries)
    expected = [[plain_bm25(q, d, DOCUMENTS) for d in DOCUMENTS] for q in queries]
    np.testing.assert_allclose(scores, expected, atol=1e-6)


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_postings_sum_the_weights_of_many_queries_in_parts(most, monkeypatch):
    monkeypatch.setattr(index, "MOST_ENTRIES", most)
    postings = Postings([("a", 0, 1.0), ("b", 1, 2.0), ("a", 2, 4.0), ("c", 2, 8.0)], 3)
    asked = [("a",), ("b", "c"), (), ("nothing", "a", "b")]
    assert postings.totals(asked).tolist() == [[1, 0, 4], [0, 2, 8], [0, 0, 0], [1, 2, 4]]
    assert postings.totals([]).shape == (0, 3)


def test_bm25_of_an_empty_bank():
    assert Bm25([]).scores(["anything"]).shape == (1, 0)


@settings(deadline=None)
@given(
    npst.arrays(np.float32, st.integers(0, 60), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0, -np.inf])),
    st.integers(1, 9),
)
def test_top_rows_sorts_by_score_then_row(scores, k):
    expected = sorted((i for i in range(len(scores)) if np.isfinite(scores[i])), key=lambda i: (-scores[i], i))[:k]
    assert top_rows(scores, k).tolist() == expected


@settings(deadline=None)
@given(
    npst.arrays(
        np.float32, st.tuples(st.integers(0, 4), st.integers(0, 30)), elements=st.sampled_from([0.1, 0.5, 0.9, -np.inf])
    ),
    st.integers(1, 9),
)
def test_pools_are_the_top_rows_of_every_query(scores, k):
    rows, valid = pools(scores, k)
    for line, found, real in zip(scores, rows, valid, strict=True):
        assert found[real].tolist() == sorted(top_rows(line, k).tolist())


def test_pools_without_ties_take_the_fast_way():
    scores = np.random.default_rng(0).permutation(200).reshape(4, 50).astype(np.float32)
    rows, valid = pools(scores, 7)
    assert valid.all() and all(r.tolist() == sorted(top_rows(s, 7).tolist()) for s, r in zip(scores, rows, strict=True))
