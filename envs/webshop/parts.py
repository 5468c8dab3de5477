"""First half of a build: the official items, cleaned and analysed, in parts of some thousand products.

Invariant: a part is a pure function of its items, so an interrupted build keeps those that are complete, and several
processes may write parts at once. A part is `N.jsonl` (one `Product` per line) and, written after it, `N.npz` with its
search terms.
"""

from __future__ import annotations

import functools
import itertools
import json
import multiprocessing
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from envs.base import EnvDataError
from envs.webshop import files
from envs.webshop.analyzer import analyze
from envs.webshop.catalog import Product, clean
from envs.webshop.nouns import noun_finder
from envs.webshop.official import AttributeTable, JsonFile, Tick

PART = 5000
"""Products."""
_LONGEST_ASIN = 10


@dataclass
class Read:
    """What was read: items skipped and why, and the digest of every source."""

    counts: dict[str, int] = field(default_factory=lambda: {"skipped_items": 0, "unreadable_prices": 0})
    digests: dict[str, str] = field(default_factory=dict)


def write_parts(
    work: Path,
    items: JsonFile,
    attributes: JsonFile,
    human: str | Path | None,
    nouns: str,
    limit: int,
    tell: files.Progress,
    workers: int,
) -> Read:
    """Write every part below `work/parts` that is not there yet, in `workers` processes (1: in this one)."""
    folder = work / "parts"
    folder.mkdir(exist_ok=True)
    read = Read()
    items.tick, attributes.tick = _ticker(tell, "products"), _ticker(tell, "attributes")
    table = AttributeTable(folder / "attributes.db")
    table.fill(attributes)
    instructions = _load_human(human, read)
    kept = _keep(itertools.islice(items.items(), limit or None), table, read)
    with _writer(folder, nouns, workers) as write:
        for number in itertools.count():
            batch = list(itertools.islice(kept, PART))
            if not batch:
                break
            products = [_clean(item, table, instructions, items.path, read) for item in batch]
            if not (folder / f"{number:06}.npz").is_file():
                write(number, products)
    table.close()
    read.digests["attributes"] = attributes.digest
    if not limit:  # else the file was not read to its end
        read.digests["items"] = items.digest
    return read


def _clean(
    item: dict[str, Any], table: AttributeTable, instructions: dict[str, Any], path: Path, read: Read
) -> Product:
    try:
        product, unreadable = clean(item, table.get(item["asin"]), instructions.get(item["asin"], ()))
    except KeyError as error:
        raise EnvDataError(
            f"Product {item['asin']} has no {error} in {path} or the instructions: are these the official files?"
        ) from error
    read.counts["unreadable_prices"] += unreadable
    return product


@contextmanager
def _writer(folder: Path, nouns: str, workers: int) -> Iterator[Callable[[int, list[Product]], None]]:
    """Writes a part given its number and products; at most one part per process waits, so that memory stays flat."""
    if workers < 2:
        yield lambda number, products: _write_part(folder, number, products, nouns)
        return
    waiting: deque[Future[None]] = deque()

    def write(number: int, products: list[Product]) -> None:
        if len(waiting) == workers:
            waiting.popleft().result()
        waiting.append(pool.submit(_write_part, folder, number, products, nouns))

    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        try:
            yield write
            for part in waiting:
                part.result()
        except BrokenProcessPool as error:
            raise EnvDataError(
                "A process of the build died, maybe for lack of memory. Run the same command with fewer workers: "
                "it goes on after the parts that are there."
            ) from error


_noun_finder = functools.cache(noun_finder)


def part_names(work: Path) -> list[Path]:
    """The parts in order, as `.npz` paths."""
    return sorted((work / "parts").glob("*.npz"))


def _ticker(tell: files.Progress, what: str) -> Tick:
    return lambda done, total: tell(what, done, total)


def _load_human(path: str | Path | None, read: Read) -> dict[str, Any]:
    if path is None:
        return {}
    source = JsonFile(path)
    instructions = {asin: json.loads(text) for asin, text in source.pairs()}
    read.digests["human"] = source.digest
    return instructions


def _keep(items: Iterator[dict[str, Any]], table: AttributeTable, read: Read) -> Iterator[dict[str, Any]]:
    """Items with a proper asin, the first of each."""
    for item in items:
        asin = item["asin"]
        if asin == "nan" or len(asin) > _LONGEST_ASIN or not table.first(asin):
            read.counts["skipped_items"] += 1
            continue
        yield item


def _write_part(folder: Path, number: int, products: list[Product], nouns: str) -> None:
    _, find_nouns = _noun_finder(nouns)
    found_nouns = find_nouns(product.title for product in products)
    lines = [replace(product, nouns=found).to_json() for product, found in zip(products, found_nouns, strict=True)]
    vocabulary: dict[str, int] = {}
    terms: list[int] = []
    repeats: list[int] = []
    sizes, lengths = [], []
    for product in products:
        counts = Counter(analyze(product.search_text()))
        terms.extend(vocabulary.setdefault(term, len(vocabulary)) for term in counts)
        repeats.extend(counts.values())
        sizes.append(len(counts))
        lengths.append(counts.total())
    files.write_bytes(
        folder / f"{number:06}.jsonl", "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
    )
    files.write_arrays(
        folder / f"{number:06}.npz",
        vocabulary=np.frombuffer(json.dumps(list(vocabulary)).encode(), np.uint8),
        terms=np.array(terms, np.int32),
        repeats=np.minimum(np.array(repeats, np.int64), np.iinfo(np.uint16).max).astype(np.uint16),
        sizes=np.array(sizes, np.int32),
        lengths=np.array(lengths, np.int64),
    )
