"""Reads the official WebShop files item by item: a JSON list or a JSON object of any size, plain or gzip.

Why: the full catalogue is 5 GB of JSON; a build must not hold it in memory.
Invariant: what is yielded equals what `json.load` of the whole file would hold, in file order; memory is one item.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from envs.base import EnvDataError

_CHUNK = 1 << 20
_LONGEST_ITEM = 64 << 20
"""Characters; a longer item means that the JSON is broken."""

Tick = Callable[[int, int], None]
"""Called with (bytes read, bytes of the file)."""


class JsonFile:
    """One official file. Iterate once over `items()` or `pairs()`; `digest` is valid when that has ended."""

    def __init__(self, path: str | Path, tick: Tick | None = None) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise EnvDataError(
                f"There is no file {self.path}: give the path of the official WebShop file (JSON, or .gz)."
            )
        self.size = self.path.stat().st_size
        self.tick = tick
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes read so far, as stored on disk."""
        return self._hash.hexdigest()

    def items(self) -> Iterator[Any]:
        """The elements of a JSON list. Raises `EnvDataError` where the file breaks off."""
        for value, _, _ in self._values("[", "]"):
            yield value

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The keys of a JSON object and their values as JSON text. Raises `EnvDataError` where the file breaks off."""
        key: str | None = None
        for value, text, after in self._values("{", "}"):
            if key is not None:
                yield key, text
                key = None
            elif after == ":":
                key = value
            else:
                raise self._broken("a key without a value")

    def _broken(self, why: str) -> EnvDataError:
        return EnvDataError(f"{self.path} is not the JSON that it should be ({why}): download it again.")

    def _values(self, opening: str, closing: str) -> Iterator[tuple[Any, str, str]]:
        """Every value between the outer brackets, its text, and the separator that follows it."""
        decode = json.JSONDecoder().raw_decode
        chunks = self._chunks()
        text, at = next(chunks, "").lstrip(), 1
        if not text.startswith(opening):
            raise self._broken(f"it does not start with {opening}")
        while True:
            while at < len(text) and text[at] in " \t\r\n,:":
                at += 1
            if text.startswith(closing, at):
                for _ in chunks:  # read on, so that the digest covers the whole file
                    pass
                return
            try:
                value, end = decode(text, at)
                rest = text[end : end + 64].lstrip()
                if not rest:
                    raise json.JSONDecodeError("the separator lies in the next chunk", "", 0)
            except json.JSONDecodeError:
                more = next(chunks, "")
                if not more or len(text) - at > _LONGEST_ITEM:
                    raise self._broken("it ends in the middle of an item") from None
                text, at = text[at:] + more, 0
                continue
            yield value, text[at:end], rest[0]
            at = end

    def _chunks(self) -> Iterator[str]:
        with self.path.open("rb") as raw:
            watched = _Watched(raw, self._hash.update)
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            source: Any = gzip.GzipFile(fileobj=cast(BinaryIO, watched)) if packed else watched
            text = io.TextIOWrapper(source, encoding="utf-8")
            try:
                while chunk := text.read(_CHUNK):
                    if self.tick:
                        self.tick(raw.tell(), self.size)
                    yield chunk
            except (EOFError, OSError, zlib.error, UnicodeDecodeError) as error:
                raise self._broken(str(error)) from error


class _Watched(io.RawIOBase):
    """A file that shows every byte it hands out."""

    def __init__(self, raw: BinaryIO, show: Callable[[bytes], None]) -> None:
        self._raw, self._show = raw, show

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._raw.read(len(buffer))
        self._show(data)
        buffer[: len(data)] = data
        return len(data)


class AttributeTable:
    """`items_ins_v2.json` as a table on disk: what the build looks up by asin, in constant memory."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path)
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("CREATE TABLE IF NOT EXISTS attributes (asin TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
        self._seen = sqlite3.connect("")  # a private file that goes with the connection
        self._seen.execute("CREATE TABLE seen (asin TEXT PRIMARY KEY) WITHOUT ROWID")

    def fill(self, source: JsonFile) -> int:
        """Replace the table's content by the file's; the number of rows."""
        with self._db:
            self._db.execute("DELETE FROM attributes")
            self._db.executemany("INSERT OR REPLACE INTO attributes VALUES (?, ?)", source.pairs())
        return int(self._db.execute("SELECT count(*) FROM attributes").fetchone()[0])

    def get(self, asin: str) -> dict[str, Any]:
        """The entry of a product; empty when there is none."""
        row = self._db.execute("SELECT value FROM attributes WHERE asin = ?", (asin,)).fetchone()
        return json.loads(row[0]) if row else {}

    def first(self, asin: str) -> bool:
        """Whether this is the first call for a product."""
        return self._seen.execute("INSERT OR IGNORE INTO seen VALUES (?)", (asin,)).rowcount == 1

    def close(self) -> None:
        """Close the files."""
        self._db.close()
        self._seen.close()
