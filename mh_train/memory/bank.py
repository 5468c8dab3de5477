"""The one owner of a run's memories: applies events, seals them at update boundaries, hands out views.

Why: counters and states that many workers write lose updates; one owner that applies an ordered list of events at each
boundary loses none and can be replayed. Milvus mirrors it (`memory.milvus`), it never decides.
Invariants: the records equal a replay of the journal; what `commit` returned from is durable; a mirror that fails is
counted, logged and caught up at the next boundary, and loses nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from mh_train.config.schema import MemoryConfig
from mh_train.memory.embed import Embedder, Fingerprint
from mh_train.memory.events import BankState
from mh_train.memory.journal import Event, Journal, pack_vector
from mh_train.memory.milvus import MilvusMirror
from mh_train.memory.milvus_search import MilvusSearch
from mh_train.memory.records import MemoryStoreError, Record, canonical
from mh_train.memory.view import BankView

log = logging.getLogger(__name__)
JOURNAL = "journal.jsonl"
LOCK = "owner.lock"


class Bank:
    """A bank in a folder: `journal.jsonl` and, with Milvus Lite, `milvus.db/`.

    Opening replays the journal. Raises `MemoryStoreError` when the journal is damaged, belongs to another embedder, is
    in use by another run, or when Milvus cannot be reached."""

    def __init__(
        self,
        config: MemoryConfig,
        embedder: Embedder,
        folder: Path,
        run: str = "run",
        read_only: bool = False,
        keep: int | None = None,
    ) -> None:
        """`keep`: forget the journal after that many bytes (a recorded boundary; 0 begins a new bank)."""
        self.config = config
        self.embedder = embedder
        self.folder = Path(folder)
        self.run = run
        self._lock = None if read_only else _own(self.folder)
        if keep is not None and (self.folder / JOURNAL).is_file():
            os.truncate(self.folder / JOURNAL, keep)
        self.journal = Journal(self.folder / JOURNAL, {"embedder": embedder.fingerprint.to_json()}, read_only)
        self.state = BankState()
        for update, events in self.journal.blocks:
            for event in events:
                self.state.apply(event)
            self.state.update = update
        self.journal.blocks.clear()
        self._view: BankView | None = None
        self._unmirrored: set[str] = set()
        self.mirror: MilvusMirror | None = None
        self.mirror_failures = 0
        if config.milvus.enabled and not read_only:
            self.mirror = MilvusMirror(config.milvus, self.folder, embedder.fingerprint, run)
            self.mirror.refill(list(self.records.values()), self.state.vectors)

    @property
    def records(self) -> dict[str, Record]:
        """All records by id, archived ones included. Not to be changed: use `apply`."""
        return self.state.records

    def view(self) -> BankView:
        """The retrievable records as of now; the same object until the next event."""
        if self._view is None:
            self._view = BankView(self.state, self.embedder.fingerprint)
        return self._view

    def search(self) -> MilvusSearch | None:
        """Finds candidates in Milvus for a view of now, when the bank is above `milvus.search_above` and the mirror
        holds all of it; else None: the view scans itself."""
        above = self.config.milvus.search_above
        if not above or self.mirror is None or self._unmirrored or len(self.view()) <= above:
            return None
        return MilvusSearch(self.mirror)

    def apply(self, events: Sequence[Event]) -> None:
        """Apply events in the given order and queue them for the journal. Raises `MemoryStoreError` for impossible
        ones."""
        for event in events:
            self.state.apply(event)
            self.journal.append([event])
            if event.kind != "reject":
                self._unmirrored.add(event.id)
            if "other" in event.data:
                self._unmirrored.add(event.data["other"])
        if events:
            self._view = None

    def commit(self, update: int) -> dict[str, float]:
        """End an update: journal durably, then mirror what changed. Metrics of the mirror."""
        self.journal.commit(update)
        self.state.update, self._view = update, None
        return self._mirror_changes()

    def digest(self) -> str:
        """SHA-256 over the embedder and every record in canonical form, by id."""
        return records_digest(self.state, self.embedder.fingerprint)

    def close(self) -> None:
        """Let the mirror and the folder go; what was committed stays, what was not is lost."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self.mirror is not None:
            self.mirror.close()
            self.mirror = None

    def _mirror_changes(self) -> dict[str, float]:
        if self.mirror is None:
            return {}
        started = time.perf_counter()
        changed = [self.records[name] for name in sorted(self._unmirrored)]
        try:
            self.mirror.upsert(changed, self.state.vectors)
            self._unmirrored.clear()
        except MemoryStoreError as error:
            self.mirror_failures += 1
            log.warning("%d memories wait for the mirror, tried again at the next update: %s", len(changed), error)
        return {
            "memory/mirror_seconds": time.perf_counter() - started,
            "memory/mirror_failures": float(self.mirror_failures),
            "memory/mirror_waiting": float(len(self._unmirrored)),
        }


def _own(folder: Path) -> IO[bytes]:
    """A file that holds an exclusive lock on the folder until it is closed or this process ends.

    Raises `MemoryStoreError` when another run holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = open(folder / LOCK, "ab")  # noqa: SIM115 - open for as long as the bank is
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise MemoryStoreError(
            f"The bank at {folder} is in use by another run; wait for it, or only read it."
        ) from error
    except OSError as error:
        log.warning("%s: this file system cannot lock (%s); make sure that only one run uses the bank.", folder, error)
    return file


def add_event(record: Record, vector: object, update: int, actor: str, reason: str) -> Event:
    """The event that adds a record with its vector (d,)."""
    return Event("add", record.id, update, actor, reason, {"record": record.to_json(), "vector": pack_vector(vector)})  # type: ignore[arg-type]


def records_digest(state: BankState, fingerprint: Fingerprint) -> str:
    """SHA-256 of the embedder's fingerprint and the canonical records in id order."""
    digest = hashlib.sha256(canonical(fingerprint.to_json()).encode())
    for name in sorted(state.records):
        digest.update(b"\n" + canonical(state.records[name].to_json()).encode())
    return digest.hexdigest()
