"""Reading a bank without owning it: a run folder, a bank folder, a snapshot or a checkpoint, finished or still running.

Why: people look at memories while a run goes on and long after it. Invariants: nothing is written, no embedder is
loaded; a journal that is being written is read up to its last boundary.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mh_train.memory.bank import JOURNAL, records_digest
from mh_train.memory.embed import Fingerprint
from mh_train.memory.events import BankState
from mh_train.memory.journal import Event, Journal
from mh_train.memory.records import MemoryStoreError, Record
from mh_train.memory.snapshot import MANIFEST, load_snapshot


@dataclass(frozen=True)
class BankFile:
    """A bank as found on disk; `events` are its journal's, none for a snapshot."""

    path: Path
    state: BankState
    fingerprint: Fingerprint
    events: tuple[Event, ...] = ()

    @property
    def digest(self) -> str:
        """The same as `Bank.digest()`."""
        return records_digest(self.state, self.fingerprint)

    def find(self, prefix: str) -> Record:
        """The record whose id starts with `prefix`. Raises `MemoryStoreError` when there is none or more than one."""
        return find(self.state.records, prefix, self.path)


def find(records: Mapping[str, Record], prefix: str, where: Path) -> Record:
    """The record of an id or of the one id that starts so. Raises `MemoryStoreError` when none or several do."""
    if prefix in records:
        return records[prefix]
    found = [name for name in sorted(records) if name.startswith(prefix)]
    if len(found) != 1:
        what = "No memory" if not found else f"{len(found)} memories ({', '.join(found[:4])} ...)"
        raise MemoryStoreError(f"{what} in {where} begin with {prefix!r}; `list` shows the ids.")
    return records[found[0]]


def read_bank_file(path: Path) -> BankFile:
    """Read a bank from a run, bank, snapshot or checkpoint folder. Raises `MemoryStoreError` when there is none."""
    path = Path(path)
    for folder in (path / "bank", path):  # in this order: a checkpoint has a manifest of its own
        if (folder / JOURNAL).is_file():
            return _from_journal(folder)
        if (folder / MANIFEST).is_file():
            state, manifest = load_snapshot(folder)
            return BankFile(folder, state, Fingerprint(**manifest["embedder"]))
    raise MemoryStoreError(f"There is no bank at {path}: give a run folder, its bank folder or a checkpoint.")


def _from_journal(folder: Path) -> BankFile:
    with open(folder / JOURNAL, "rb") as file:
        line = file.readline()
    try:
        embedder = Fingerprint(**json.loads(line)["embedder"])
    except (ValueError, KeyError, TypeError) as error:
        raise MemoryStoreError(f"{folder / JOURNAL} is not a memory journal.") from error
    journal = Journal(folder / JOURNAL, {"embedder": embedder.to_json()}, read_only=True)
    state = BankState()
    for update, events in journal.blocks:
        for event in events:
            state.apply(event)
        state.update = update
    return BankFile(folder, state, embedder, tuple(event for _, events in journal.blocks for event in events))


def problems(bank: BankFile, budget: int | None = None) -> Iterator[str]:
    """What is wrong with a bank, one sentence each; nothing for a sound one. Damage of files is raised on reading."""
    records = bank.state.records
    held = sum(record.retrievable for record in records.values())
    if budget is not None and held > budget:
        yield f"{held} records are retrievable, the budget is {budget}."
    for name, record in sorted(records.items()):
        vector = bank.state.vectors.get(name)
        if vector is None or vector.shape != (bank.fingerprint.dim,):
            yield f"{name} has no vector of {bank.fingerprint.dim} dimensions."
        for other in record.conflict_links:
            if other not in records or name not in records[other].conflict_links:
                yield f"{name} links to {other}, which does not link back."
        for covered in record.covers:
            if covered not in records or records[covered].state != "archived" or records[covered].covers:
                yield f"{name} covers {covered}, which is missing, not archived, or itself a summary."
        judged = record.descriptor
        if judged and not (0 <= judged.reward <= 1 and 0 <= judged.confidence <= 1):
            yield f"{name} has R {judged.reward} and c {judged.confidence}, outside [0, 1]."
        if record.usage.c_succ > record.usage.c_use:
            yield f"{name} has more successes than uses."
