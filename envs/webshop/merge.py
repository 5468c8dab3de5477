"""Second half of a build: parts in, the store's files out.

Three passes over the parts: products with prices and codes; vocabulary with document counts; postings. Goals need the
finished product file, because their random draws follow all price draws.
Invariant: arrays as large as the index are filled on disk (memory-mapped), block by block.
"""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from envs.webshop import bm25, files
from envs.webshop.catalog import Product
from envs.webshop.goals import Kind, draw_goals, draw_prices
from envs.webshop.parts import part_names

_BLOCK = 1 << 20
"""Postings whose impacts are computed at once."""


def merge(work: Path, seed: int, tell: files.Progress) -> dict[str, int]:
    """Write the store's arrays into `work`; counts for the manifest."""
    parts = part_names(work)
    rng = random.Random(seed)
    prices = _write_products(work, parts, rng, tell)
    counts = {"products": len(prices)}
    state = rng.getstate()
    for kind in ("synthetic", "human"):
        rng.setstate(state)
        goals = draw_goals(cast(Kind, kind), _products(parts), prices, rng)
        np.save(work / f"goals_{kind}.npy", goals)
        counts[f"{kind}_goals"] = len(goals)
    return counts | _write_index(work, parts, tell)


def _products(parts: list[Path]) -> Iterator[Product]:
    for part in parts:
        with part.with_suffix(".jsonl").open("rb") as lines:
            yield from map(Product.from_json, lines)


def _write_products(work: Path, parts: list[Path], rng: random.Random, tell: files.Progress) -> NDArray[np.float64]:
    """Products, asins, prices, categories and queries."""
    asins, prices = [np.zeros(0, "U10")], [np.zeros(0)]
    categories, queries = _Labels(), _Labels()
    with files.TextsWriter(work, "products") as writer:
        for done, part in enumerate(parts, 1):
            lines = part.with_suffix(".jsonl").read_bytes().splitlines()
            writer.append(lines)
            products = [Product.from_json(line) for line in lines]
            asins.append(np.array([product.asin for product in products], "U10"))
            prices.append(draw_prices((product.pricing for product in products), rng))
            for product in products:
                categories.add(product.category)
                queries.add(product.query)
            tell("merging products", done, len(parts))
    names, every_price = np.concatenate(asins), np.concatenate(prices)
    rank = np.empty(len(names), np.int32)
    rank[np.argsort(names)] = np.arange(len(names), dtype=np.int32)
    np.save(work / "asins.npy", names)
    np.save(work / "asin_rank.npy", rank)
    np.save(work / "prices.npy", every_price)
    categories.write(work, "categories", "category_of")
    queries.write(work, "queries", "query_of")
    return every_price


class _Labels:
    """One text per product, of few different ones."""

    def __init__(self) -> None:
        self._code: dict[bytes, int] = {}
        self._codes = array("i")

    def add(self, text: str) -> None:
        self._codes.append(self._code.setdefault(_bytes(text), len(self._code)))

    def write(self, work: Path, name: str, codes_name: str) -> None:
        """The texts, sorted, and the place of every product's text among them."""
        known = sorted(self._code)
        place = np.empty(len(known), np.int32)
        place[[self._code[text] for text in known]] = np.arange(len(known), dtype=np.int32)
        with files.TextsWriter(work, name) as writer:
            writer.append(known)
        np.save(work / f"{codes_name}.npy", place[np.array(self._codes, np.int32)])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _write_index(work: Path, parts: list[Path], tell: files.Progress) -> dict[str, int]:
    """Vocabulary, postings and document lengths."""
    terms = sorted({_bytes(term) for part in parts for term in _vocabulary(part)})
    with files.TextsWriter(work, "terms") as writer:
        writer.append(terms)
    number = {term: i for i, term in enumerate(terms)}
    found_in = np.zeros(len(terms), np.int64)
    lengths = [np.zeros(0, np.int64)]
    for part in parts:
        found_in += np.bincount(_terms(part, number), minlength=len(terms))
        lengths.append(np.load(part)["lengths"])
    start = np.concatenate([[0], np.cumsum(found_in)])
    np.save(work / "posting_start.npy", start)
    every_length = np.concatenate(lengths)
    searchable = int(np.count_nonzero(every_length))
    codes = np.array([bm25.length_code(int(n)) for n in every_length], np.uint8)
    norms = bm25.inverse_norms(searchable, int(every_length.sum()))
    np.save(work / "lengths.npy", codes)
    np.save(work / "inverse_norms.npy", norms)
    rows, counts = _write_postings(work, parts, number, start, tell)
    _write_impacts(work, bm25.inverse_frequencies(searchable, found_in), start, counts, norms, codes, rows)
    return {"terms": len(terms), "postings": int(start[-1]), "searchable": searchable}


def _vocabulary(part: Path) -> list[str]:
    return json.loads(np.load(part)["vocabulary"].tobytes())


def _terms(part: Path, number: dict[bytes, int]) -> NDArray[np.int32]:
    """The term numbers of a part's products, one after another."""
    of_part = np.array([number[_bytes(term)] for term in _vocabulary(part)], np.int32)
    return of_part[np.load(part)["terms"]]


def _write_postings(
    work: Path, parts: list[Path], number: dict[bytes, int], start: NDArray[np.int64], tell: files.Progress
) -> tuple[Any, Any]:
    """Rows and counts of every term, in row order within a term."""
    rows = files.new_array(work, "posting_row", np.int32, int(start[-1]))
    counts = files.new_array(work, "posting_count", np.uint16, int(start[-1]))
    cursor = start[:-1].copy()
    first_row = 0
    for done, part in enumerate(parts, 1):
        arrays = np.load(part)
        terms = _terms(part, number)
        order = np.argsort(terms, kind="stable")
        terms = terms[order]
        first_of_term = np.searchsorted(terms, terms)
        at = cursor[terms] + np.arange(len(terms)) - first_of_term
        row = np.repeat(np.arange(len(arrays["sizes"]), dtype=np.int32), arrays["sizes"]) + np.int32(first_row)
        rows[at] = row[order]
        counts[at] = arrays["repeats"][order]
        cursor += np.bincount(terms, minlength=len(cursor))
        first_row += len(arrays["sizes"])
        tell("merging postings", done, len(parts))
    return rows, counts


def _write_impacts(
    work: Path,
    idf: NDArray[np.float32],
    start: NDArray[np.int64],
    counts: Any,
    norms: NDArray[np.float32],
    codes: NDArray[np.uint8],
    rows: Any,
) -> None:
    """What each posting adds to a score, and the most that each term adds."""
    impacts = files.new_array(work, "posting_impact", np.float32, int(start[-1]))
    most = np.zeros(len(idf), np.float32)
    term = 0
    while term < len(idf):
        end = max(int(np.searchsorted(start, start[term] + _BLOCK, side="right")) - 1, term + 1)
        block = slice(int(start[term]), int(start[end]))
        weights = np.repeat(idf[term:end], np.diff(start[term : end + 1]))
        values = bm25.impacts(weights, counts[block], norms[codes[rows[block]]])
        impacts[block] = values
        most[term:end] = np.maximum.reduceat(values, start[term:end] - start[term])
        term = end
    np.save(work / "term_most.npy", most)
