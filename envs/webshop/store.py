"""The catalogue on disk: products, search index, prices and goals in one folder, memory-mapped and read-only.

Why: the original holds a full copy per worker (0.9 GB at 1000 products, about 10 GB at 1.18 M). Here every process maps
the same files, so the page cache holds one copy. Build one with `mh-train data webshop`.
Invariant: a store is complete or refused; `manifest.json` is written last and lists the size of every file.
"""

from __future__ import annotations

import bisect
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from envs.base import EnvDataError
from envs.webshop.catalog import Product

FORMAT = 1
MANIFEST = "manifest.json"
_BUILD_AGAIN = "Build it again with `mh-train data webshop`."


class Texts:
    """Byte strings one after another in `NAME.bin`, with `NAME.ends.npy` saying where each ends."""

    def __init__(self, folder: Path, name: str) -> None:
        self._ends = _mapped(folder / f"{name}.ends.npy")
        empty = len(self._ends) == 0 or int(self._ends[-1]) == 0
        bytes_ = np.zeros(0, np.uint8) if empty else np.memmap(folder / f"{name}.bin", np.uint8, mode="r")
        self._bytes: Any = memoryview(np.asarray(bytes_).data)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, i: int) -> bytes:
        start = int(self._ends[i - 1]) if i else 0
        return bytes(self._bytes[start : int(self._ends[i])])

    def find(self, text: str) -> int | None:
        """Where a text is, if the texts are sorted by their UTF-8 bytes; None when it is not there."""
        key = text.encode("utf-8", "surrogatepass")
        at = bisect.bisect_left(self, key)
        return at if at < len(self) and self[at] == key else None


class Store:
    """A built catalogue. `len` is the number of products; a row is a product's place in the official file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.manifest = _read_manifest(self.path)

        def array(name: str) -> Any:
            return _mapped(self.path / f"{name}.npy")

        self._products = Texts(self.path, "products")
        self.asins = array("asins")
        """(N,) str"""
        self.asin_rank = array("asin_rank")
        """(N,) int32: place of each product in asin order, which breaks ties of the ranking"""
        self.prices = array("prices")
        """(N,) float64 dollars, drawn from each product's range with the catalogue seed"""
        self.categories, self.category_of = Texts(self.path, "categories"), array("category_of")
        self.queries, self.query_of = Texts(self.path, "queries"), array("query_of")
        self.terms = Texts(self.path, "terms")
        self.term_most = array("term_most")
        """(T,) float32: highest impact of each term"""
        self.posting_start = array("posting_start")
        """(T + 1,) int64 into the three posting arrays: row, times in that product's text, impact on the score"""
        self.posting_row = array("posting_row")
        self.posting_count = array("posting_count")
        self.posting_impact = array("posting_impact")
        self.lengths = array("lengths")
        """(N,) uint8 length codes"""
        self.inverse_norms = array("inverse_norms")
        self.searchable: int = self.manifest["counts"]["searchable"]
        """Products with at least one term."""
        self.goals = {kind: array(f"goals_{kind}") for kind in ("synthetic", "human")}
        """Goal rows (`envs.webshop.goals.GOAL`) in canonical order"""
        self.product = functools.lru_cache(maxsize=1024)(self._product)

    def __len__(self) -> int:
        return len(self._products)

    def _product(self, row: int) -> Product:
        return Product.from_json(self._products[row])

    def row_of(self, asin: str) -> int:
        """The row of an asin. Raises `KeyError`."""
        rows = np.flatnonzero(self.asins == asin)
        if not len(rows):
            raise KeyError(asin)
        return int(rows[0])

    def rows_with(self, kind: str, value: str) -> list[int]:
        """Rows whose "category" or "query" is exactly `value`, in file order."""
        texts, codes = (self.categories, self.category_of) if kind == "category" else (self.queries, self.query_of)
        code = texts.find(value)
        return [] if code is None else [int(row) for row in np.flatnonzero(codes == code)]

    def check(self) -> None:
        """Compare every file with its digest (reads the whole store). Raises `EnvDataError` naming the damaged file."""
        for name, entry in self.manifest["files"].items():
            if file_digest(self.path / name) != entry["sha256"]:
                raise EnvDataError(f"The file {name} of the WebShop store {self.path} is damaged. {_BUILD_AGAIN}")


def _mapped(path: Path) -> Any:
    """An array on disk, as a plain array: slices of numpy's own memmap class are several times slower."""
    return np.asarray(np.load(path, mmap_mode="r"))


@functools.cache
def open_store(path: str) -> Store:
    """The store at a path, opened once per process however many environments use it. Raises `EnvDataError`."""
    return Store(path)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _read_manifest(path: Path) -> dict[str, Any]:
    """The manifest, after checking version and file sizes."""
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
    except FileNotFoundError:
        raise EnvDataError(
            f"There is no WebShop store at {path}. Build one: `mh-train data webshop --items items_shuffle.json "
            f"--attributes items_ins_v2.json --out {path}`."
        ) from None
    except ValueError as error:
        raise EnvDataError(f"The manifest of the WebShop store {path} cannot be read. {_BUILD_AGAIN}") from error
    if manifest.get("format") != FORMAT:
        raise EnvDataError(
            f"The WebShop store {path} has format {manifest.get('format')}, this program reads format {FORMAT}. "
            + _BUILD_AGAIN
        )
    for name, entry in manifest["files"].items():
        file = path / name
        size = file.stat().st_size if file.is_file() else None
        if size != entry["bytes"]:
            raise EnvDataError(
                f"The file {name} of the WebShop store {path} has {size or 0} bytes instead of {entry['bytes']}. "
                + _BUILD_AGAIN
            )
    return manifest
