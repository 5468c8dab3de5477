"""`mh-train bank export|import|archive|pin`: moving memories between banks and correcting a bank by hand.

Why: a bank is worth sharing and sometimes wrong. An export is JSON lines: a header, then one record a line, readable
and editable. Invariants: importing an export into an empty bank of the same embedder gives the exported digest; an
import is previewed first and never changes a record that exists; edits need the bank to themselves and are journalled
with their reason.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mh_train.config.schema import MemoryConfig
from mh_train.files import write_jsonl
from mh_train.memory.bank import Bank, add_event
from mh_train.memory.bankfile import BankFile, find
from mh_train.memory.inspect import Table, shortened
from mh_train.memory.journal import FORMAT, Event
from mh_train.memory.lifecycle import similarity
from mh_train.memory.records import MemoryStoreError, Record
from mh_train.memory.signature import same_advice


@dataclass(frozen=True)
class Preview:
    """What an import would do: records to add, ids that exist already (equal or not), and among the new ones copies
    of and contradictions to what is there, as (new id, existing id, similarity)."""

    new: tuple[Record, ...]
    same: tuple[str, ...]
    different: tuple[str, ...]
    duplicates: tuple[tuple[str, str, float], ...]
    conflicts: tuple[tuple[str, str, float], ...]

    def table(self) -> Table:
        """One row per finding."""
        rows: list[tuple[str, str, str]] = [("new", r.id, shortened(r.content)) for r in self.new]
        rows += [("exists", name, "") for name in self.same]
        rows += [("exists, differs", name, "kept as it is in the bank") for name in self.different]
        rows += [("copy", a, f"of {b} ({sim:.2f})") for a, b, sim in self.duplicates]
        rows += [("conflict", a, f"with {b} ({sim:.2f})") for a, b, sim in self.conflicts]
        return Table(f"{len(self.new)} new memories", ("what", "id", "detail"), tuple(rows))


def export(bank: BankFile, path: Path) -> int:
    """Write all records of a bank to a JSONL file; how many."""
    names = sorted(bank.state.records)
    header: dict[str, Any] = {
        "format": FORMAT,
        "embedder": bank.fingerprint.to_json(),
        "digest": bank.digest,
        "records": len(names),
    }
    write_jsonl(path, [header, *(bank.state.records[name].to_json() for name in names)])
    return len(names)


def read_export(path: Path) -> list[Record]:
    """The records of an export. Raises `MemoryStoreError` naming the line that cannot be read."""
    records: list[Record] = []
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise MemoryStoreError(f"The export {path} cannot be read ({error}).") from error
    for number, line in enumerate(lines, 1):
        try:
            data = json.loads(line)
            if number > 1 or "id" in data:
                records.append(Record.from_json(data))
        except (ValueError, TypeError, MemoryStoreError) as error:
            raise MemoryStoreError(f"Line {number} of {path} is not a memory record ({error}).") from error
    return records


def preview(bank: Bank, records: Sequence[Record], config: MemoryConfig) -> Preview:
    """Compare records with a bank; copies and conflicts by `memory.lifecycle`'s thresholds and signatures."""
    fresh: dict[str, Record] = {}
    for record in records:
        if record.id not in bank.records:
            fresh.setdefault(record.id, record)
    known = [r for r in records if r.id in bank.records]
    same = tuple(sorted(r.id for r in known if bank.records[r.id] == r))
    different = tuple(sorted(r.id for r in known if bank.records[r.id] != r))
    duplicates: list[tuple[str, str, float]] = []
    conflicts: list[tuple[str, str, float]] = []
    live = sorted((r for r in bank.records.values() if r.state != "archived"), key=lambda r: r.id)
    vectors = bank.embedder.encode([r.key_text() for r in fresh.values()])
    matrix = np.array([bank.state.vectors[r.id] for r in live]).reshape(len(live), vectors.shape[1])
    for record, cosines in zip(fresh.values(), vectors @ matrix.T, strict=True):
        for other, cosine in zip(live, cosines, strict=True):
            sim = similarity(float(cosine), record.signature, other.signature)
            if sim > config.lifecycle.merge and same_advice(record, other):
                duplicates.append((record.id, other.id, sim))
            elif sim > config.lifecycle.conflict and not same_advice(record, other):
                conflicts.append((record.id, other.id, sim))
    return Preview(tuple(fresh.values()), same, different, tuple(duplicates), tuple(conflicts))


def import_records(bank: Bank, planned: Preview, source: str, copies: bool = False) -> int:
    """Add the new records of a preview, without copies of what is there unless `copies`; how many."""
    copied = set() if copies else {name for name, _, _ in planned.duplicates}
    chosen = [r for r in planned.new if r.id not in copied]
    vectors = bank.embedder.encode([r.key_text() for r in chosen])
    update = bank.state.update
    reason = f"imported from {source}"
    bank.apply([add_event(r, v, update, "import", reason) for r, v in zip(chosen, vectors, strict=True)])
    bank.commit(update)
    return len(chosen)


def archive(bank: Bank, names: Sequence[str], reason: str) -> None:
    """Take records out of retrieval by hand; ids may be shortened. Raises `MemoryStoreError` for an unknown id."""
    _edit(bank, names, "archive", reason, {})


def pin(bank: Bank, names: Sequence[str], reason: str, pinned: bool = True) -> None:
    """Protect records from pruning and the budget, or release them."""
    _edit(bank, names, "pin", reason, {"pinned": pinned})


def _edit(bank: Bank, names: Sequence[str], kind: Any, reason: str, data: dict[str, Any]) -> None:
    chosen = [find(bank.records, name, bank.folder).id for name in names]
    bank.apply([Event(kind, name, bank.state.update, "user", reason, data) for name in chosen])
    bank.commit(bank.state.update)
