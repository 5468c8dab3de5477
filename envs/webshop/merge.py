"""Second half of a build: parts in, the store's files out.

Three passes over the parts: products with prices and codes; vocabulary with document counts; postings. Goals need the
finished product file, because their random draws follow all price draws.
Invariant: arrays as large as the index are filled on disk (memory-mapped), block by block.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from envs.webshop import bm25, files
from envs.webshop.catalog import Product
from envs.webshop.goals import Kind, draw_goals, draw_prices
from envs.webshop.parts import part_names

_BLOCK = 1 << 22
"""Postings whose impacts are computed at once."""


def merge(work: Path, seed: int, tell: Callable[[str, int, int], None]) -> dict[str, int]:
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


def _write_products(
    work: Path, parts: list[Path], rng: random.Random, tell: Callable[..., None]
) -> NDArray[np.float64]:
    """Products, asins, prices, categories and queries."""
    asins: list[str] = []
    prices = [np.zeros(0)]
    labels: dict[str, list[bytes]] = {"categories": [], "queries": []}
    with files.TextsWriter(work, "products") as writer:
        for number, part in enumerate(parts):
            lines = part.with_suffix(".jsonl").read_bytes().splitlines()
            writer.append(lines)
            products = [Product.from_json(line) for line in lines]
            asins.extend(product.asin for product in products)
            prices.append(draw_prices((product.pricing for product in products), rng))
            labels["categories"].extend(_bytes(product.category) for product in products)
            labels["queries"].extend(_bytes(product.query) for product in products)
            tell("merging products", number + 1, len(parts))
    every_price = np.concatenate(prices)
    names = np.array(asins, dtype="U10")
    rank = np.empty(len(names), np.int32)
    rank[np.argsort(names)] = np.arange(len(names), dtype=np.int32)
    np.save(work / "asins.npy", names)
    np.save(work / "asin_rank.npy", rank)
    np.save(work / "prices.npy", every_price)
    for name, codes_name in (("categories", "category_of"), ("queries", "query_of")):
        known = sorted(set(labels[name]))
        code = {label: i for i, label in enumerate(known)}
        with files.TextsWriter(work, name) as writer:
            writer.append(known)
        np.save(work / f"{codes_name}.npy", np.array([code[label] for label in labels[name]], np.int32))
    return every_price


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _write_index(work: Path, parts: list[Path], tell: Callable[..., None]) -> dict[str, int]:
    """Vocabulary, postings and document lengths."""
    vocabularies = [json.loads(np.load(part)["vocabulary"].tobytes()) for part in parts]
    terms = sorted({_bytes(term) for vocabulary in vocabularies for term in vocabulary})
    number = {term: i for i, term in enumerate(terms)}
    to_global = [np.array([number[_bytes(t)] for t in vocabulary], np.int32) for vocabulary in vocabularies]
    with files.TextsWriter(work, "terms") as writer:
        writer.append(terms)
    found_in = np.zeros(len(terms), np.int64)
    lengths = [np.zeros(0, np.int64)]
    for part, mapping in zip(parts, to_global, strict=True):
        arrays = np.load(part)
        found_in += np.bincount(mapping[arrays["terms"]], minlength=len(terms))
        lengths.append(arrays["lengths"])
    start = np.concatenate([[0], np.cumsum(found_in)])
    np.save(work / "posting_start.npy", start)
    every_length = np.concatenate(lengths)
    searchable = int(np.count_nonzero(every_length))
    codes = np.array([bm25.length_code(int(n)) for n in every_length], np.uint8)
    norms = bm25.inverse_norms(searchable, int(every_length.sum()))
    np.save(work / "lengths.npy", codes)
    np.save(work / "inverse_norms.npy", norms)
    rows, counts = _write_postings(work, parts, to_global, start, tell)
    _write_impacts(
        work, bm25.inverse_frequencies(searchable, found_in), start, counts, norms, codes[: len(codes)], rows
    )
    return {"terms": len(terms), "postings": int(start[-1]), "searchable": searchable}


def _write_postings(
    work: Path,
    parts: list[Path],
    to_global: list[NDArray[np.int32]],
    start: NDArray[np.int64],
    tell: Callable[..., None],
) -> tuple[Any, Any]:
    """Rows and counts of every term, in row order within a term."""
    rows = files.new_array(work, "posting_row", np.int32, int(start[-1]))
    counts = files.new_array(work, "posting_count", np.uint16, int(start[-1]))
    cursor = start[:-1].copy()
    first_row = 0
    for number, (part, mapping) in enumerate(zip(parts, to_global, strict=True)):
        arrays = np.load(part)
        terms = mapping[arrays["terms"]]
        order = np.argsort(terms, kind="stable")
        terms = terms[order]
        first_of_term = np.searchsorted(terms, terms)
        at = cursor[terms] + np.arange(len(terms)) - first_of_term
        row = np.repeat(np.arange(len(arrays["sizes"]), dtype=np.int32), arrays["sizes"]) + np.int32(first_row)
        rows[at] = row[order]
        counts[at] = arrays["repeats"][order]
        cursor += np.bincount(terms, minlength=len(cursor))
        first_row += len(arrays["sizes"])
        tell("merging postings", number + 1, len(parts))
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
