"""The ranking equals scoring every product by the formula; early termination changes nothing."""

import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shop_files import item, write_files

from envs.webshop import bm25, search
from envs.webshop.analyzer import analyze
from envs.webshop.build import build_store
from envs.webshop.search import MOST_TERMS, Searcher, TooManyTermsError

WORDS = [f"word{i}" for i in range(40)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """400 products of few words, so that scores often tie."""
    rng = random.Random(5)
    folder = tmp_path_factory.mktemp("corpus")
    weights = [1 / (i + 1) for i in range(len(WORDS))]
    texts = {f"B{rng.randrange(10**9):09d}": rng.choices(WORDS, weights, k=rng.randint(1, 60)) for _ in range(400)}
    items = [item(asin, " ".join(words), small_description=[""]) for asin, words in texts.items()]
    paths = write_files(folder, items, {}, {})
    return build_store(*paths, out=folder / "store", nouns="words")


@pytest.fixture(scope="module")
def documents(corpus):
    """Term counts of every product."""
    return [Counter(analyze(corpus.product(row).search_text())) for row in range(len(corpus))]


def by_formula(store, documents, query, k):
    """BM25 in plain Python, single precision where Lucene has it."""
    f = np.float32
    mean = f(sum(d.total() for d in documents) / len(documents))
    scores = {}
    for term, repeats in Counter(analyze(query)).items():
        found = [row for row, d in enumerate(documents) if term in d]
        idf = f(math.log(1 + (len(documents) - len(found) + 0.5) / (len(found) + 0.5)))
        weight = f(repeats) * idf
        for row in found:
            length = bm25.code_length(bm25.length_code(documents[row].total()))
            norm = f(1) / (f(0.9) * ((f(1) - f(0.4)) + f(0.4) * f(length) / mean))
            impact = weight - weight / (f(1) + f(documents[row][term]) * norm)
            scores[row] = scores.get(row, 0.0) + float(impact)
    return sorted(scores, key=lambda row: (-f(scores[row]), store.product(row).asin))[:k]


@pytest.mark.parametrize("long", [1, 10**6])
@pytest.mark.parametrize("dense", [1, 10**6])
def test_ranking_equals_the_formula_with_and_without_early_termination(corpus, documents, monkeypatch, long, dense):
    monkeypatch.setattr(search, "_LONG", long)
    monkeypatch.setattr(search, "_DENSE", dense)
    searcher, rng = Searcher(corpus), random.Random(1)
    for n in range(40):
        query = " ".join(rng.choices(WORDS, k=rng.randint(1, 12)))
        k = 50 if n % 2 else 3
        assert searcher.search(query, k) == by_formula(corpus, documents, query, k), query


def test_nothing_is_found_for_words_that_no_product_has(corpus):
    searcher = Searcher(corpus)
    assert searcher.search("absent") == searcher.search("!!!") == searcher.search("the of") == []
    assert searcher.search("absent word3") == searcher.search("word3")


def test_more_terms_than_lucene_takes_are_refused(corpus):
    searcher = Searcher(corpus)
    assert searcher.search(" ".join(f"x{i}" for i in range(MOST_TERMS - 1)) + " word1")
    with pytest.raises(TooManyTermsError, match="at most 1024"):
        searcher.search(" ".join(f"x{i}" for i in range(MOST_TERMS + 1)))


def test_lengths_are_rounded_down_to_three_bits():
    codes = [bm25.length_code(n) for n in range(5000)]
    assert codes == sorted(codes)
    assert [bm25.code_length(code) for code in codes[:40]] == list(range(40))
    assert [bm25.code_length(bm25.length_code(n)) for n in (40, 41, 107, 1000)] == [40, 40, 104, 984]


@settings(deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_a_length_code_stands_for_the_smallest_length_that_has_it(length):
    code = bm25.length_code(length)
    assert 0 <= code <= 255
    least = bm25.code_length(code)
    assert least <= length and bm25.length_code(least) == code
    assert least == 0 or bm25.length_code(least - 1) == code - 1
