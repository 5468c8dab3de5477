"""The bank's append-only journal: JSON lines in blocks, one block per update boundary, each block sealed by a hash.

Why: the bank is a pure function of this file; counters, states and links can be rebuilt, explained and cut back to any
checkpoint. Format: a header line (format, embedder), event lines, and after each boundary a line
{"boundary": update, "events": n, "sha256": of the block's bytes}.
Invariants: what a finished `commit` wrote is durable (fsync) and never changes; a block without its boundary line (a
killed process, a full disk) is no part of the bank: it is logged and cut off on open, or skipped when reading only.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mh_train.memory.embed import Fingerprint
from mh_train.memory.records import MemoryStoreError, canonical

log = logging.getLogger(__name__)
FORMAT = 1
BY_HAND = ("user", "import")
"""Actors of the events that a person makes (`memory.transfer`)."""
EventKind = Literal["add", "verify", "use", "state", "revise", "merge", "conflict", "prune", "archive", "pin", "reject"]


@dataclass(frozen=True)
class Event:
    """One change of one record: what, to which, in which update, by whom and why. `data` is JSON-able."""

    kind: EventKind
    id: str
    update: int
    actor: str
    reason: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_line(self) -> str:
        """The event as one canonical JSON line."""
        return canonical({**self.__dict__, "data": dict(self.data)}) + "\n"


def pack_vector(vector: np.ndarray) -> str:
    """float32 (d,) -> base64 text, exact."""
    return base64.b64encode(np.ascontiguousarray(vector, dtype="<f4").tobytes()).decode()


def unpack_vector(text: str) -> np.ndarray:
    """The inverse of `pack_vector`."""
    return np.frombuffer(base64.b64decode(text), dtype="<f4")


class Journal:
    """The journal file of one bank. `offset` is the length in bytes of its sealed part; `blocks` are what was found
    there, `ends` the offsets behind them."""

    def __init__(self, path: Path, header: Mapping[str, Any], read_only: bool = False) -> None:
        """Open or make the file. Raises `MemoryStoreError` when it is damaged before its last boundary or belongs to
        another header (another embedder)."""
        self.path = path
        self.read_only = read_only
        self.pending: list[Event] = []
        self.blocks: list[tuple[int, list[Event]]] = []
        self.ends: list[int] = []
        self.offset = 0
        if path.is_file() and path.stat().st_size:
            self._read(header)
        elif read_only:
            raise MemoryStoreError(f"There is no bank at {path.parent}: {path.name} is missing.")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write((canonical({"format": FORMAT, **header}) + "\n").encode())

    def append(self, events: Sequence[Event]) -> None:
        """Queue events for the next `commit`."""
        self.pending.extend(events)

    def commit(self, update: int) -> int:
        """Write what is queued and the boundary line of `update` durably; the new offset.

        Raises `MemoryStoreError` (disk full, ...): the file then is as before and the events stay queued."""
        block = "".join(event.to_line() for event in self.pending).encode()
        seal = {"boundary": update, "events": len(self.pending), "sha256": hashlib.sha256(block).hexdigest()}
        self._write(block + (canonical(seal) + "\n").encode())
        self.pending.clear()
        return self.offset

    def prefix_digest(self, offset: int) -> str:
        """SHA-256 of the first `offset` bytes."""
        with open(self.path, "rb") as file:
            return hashlib.sha256(file.read(offset)).hexdigest()

    def cut(self, offset: int) -> None:
        """Forget everything after `offset` (a boundary that a checkpoint recorded)."""
        with open(self.path, "r+b") as file:
            file.truncate(offset)
            os.fsync(file.fileno())
        self.offset = offset

    def _write(self, data: bytes) -> None:
        if self.read_only:
            raise MemoryStoreError(f"The bank at {self.path.parent} was opened for reading only.")
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT)
        try:
            os.lseek(descriptor, self.offset, os.SEEK_SET)
            written = 0
            while written < len(data):
                written += os.write(descriptor, data[written:])
            os.fsync(descriptor)
        except OSError as error:
            os.ftruncate(descriptor, self.offset)
            raise MemoryStoreError(
                f"The memory journal {self.path} cannot be written ({error.strerror}); free space there and resume: "
                "everything up to the last update is safe."
            ) from error
        finally:
            os.close(descriptor)
        self.offset += len(data)

    def _read(self, header: Mapping[str, Any]) -> None:
        with open(self.path, "rb") as file:
            data = file.read()
        found = _parse(data.split(b"\n", 1)[0])
        if found is None or found.get("format") != FORMAT:
            raise MemoryStoreError(f"{self.path} is not a memory journal of format {FORMAT}.")
        check_header(found, header, self.path)
        for end, update, events in self._sealed(data):
            self.blocks.append((update, events))
            self.ends.append(end)
            self.offset = end
        if len(data) > self.offset:
            log.warning("%s: %d bytes after the last boundary are left out.", self.path, len(data) - self.offset)
            if not self.read_only:
                self.cut(self.offset)

    def _sealed(self, data: bytes) -> Iterator[tuple[int, int, list[Event]]]:
        """(end offset, update, events) of every sealed block."""
        self.offset = start = position = data.index(b"\n") + 1
        events: list[Event] = []
        broken = False
        while (end := data.find(b"\n", position)) >= 0:
            line = _parse(data[position:end])
            if line is not None and "boundary" in line:
                intact = line.get("sha256") == hashlib.sha256(data[start:position]).hexdigest()
                if broken or not intact or line.get("events") != len(events):
                    raise MemoryStoreError(
                        f"{self.path} is damaged before its boundary of update {line['boundary']}; "
                        "restore the bank from a checkpoint's snapshot."
                    )
                yield end + 1, line["boundary"], events
                events, start = [], end + 1
            elif line is None or "kind" not in line:
                broken = True
            else:
                events.append(Event(**line))
            position = end + 1


def check_header(found: Mapping[str, Any], expected: Mapping[str, Any], path: Path) -> None:
    """Raise `MemoryStoreError` when a bank file was made with another embedder."""
    ours, theirs = expected.get("embedder"), found.get("embedder")
    if ours != theirs:
        raise MemoryStoreError(
            f"The bank at {path.parent} was made with embedder {_named(theirs)}, this run uses {_named(ours)}; "
            "choose the same memory.embedder or start an empty bank."
        )


def _named(embedder: Any) -> str:
    if not isinstance(embedder, Mapping):
        return "(unknown)"
    return str(Fingerprint(embedder.get("name", ""), embedder.get("dim", 0), embedder.get("digest", "")))


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
