"""Snapshots: the whole bank beside a checkpoint, and the way back.

Why: a resumed run must see exactly the memories of its checkpoint, not those of an abandoned future; evaluation reads a
frozen bank without opening its journal. A snapshot is a folder: `records.jsonl`, `vectors.npy` (row i belongs to line
i), `manifest.json` (format, embedder, digests, journal offset, the thresholds in force).
Invariants: a snapshot is complete or absent; restoring gives a bank with the digest of the one that was saved.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from mh_train.config.schema import MemoryConfig
from mh_train.files import fsync_folder, write_atomic, write_json
from mh_train.memory.bank import JOURNAL, Bank, add_event
from mh_train.memory.embed import Embedder
from mh_train.memory.events import BankState
from mh_train.memory.journal import BY_HAND, FORMAT, Event, Journal, check_header
from mh_train.memory.records import MemoryStoreError, Record, canonical
from mh_train.memory.view import BankView

log = logging.getLogger(__name__)
RECORDS, VECTORS, MANIFEST = "records.jsonl", "vectors.npy", "manifest.json"


def save_snapshot(bank: Bank, folder: Path) -> dict[str, Any]:
    """Write the bank as of its last boundary to `folder` (replaced as a whole); the manifest.

    Raises `MemoryStoreError` when events wait for a boundary or the disk is full."""
    if bank.journal.pending:
        raise MemoryStoreError("The bank has events that no boundary sealed; commit the update before a snapshot.")
    folder = Path(folder)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    names = sorted(bank.records)
    lines = "".join(canonical(bank.records[name].to_json()) + "\n" for name in names).encode()
    vectors = np.array([bank.state.vectors[name] for name in names], dtype=np.float32)
    buffer = io.BytesIO()
    np.save(buffer, vectors.reshape(len(names), bank.embedder.fingerprint.dim))
    manifest = {
        "format": FORMAT,
        "embedder": bank.embedder.fingerprint.to_json(),
        "run": bank.run,
        "update": bank.state.update,
        "records": len(names),
        "digest": bank.digest(),
        "sha256": {RECORDS: _sha256(lines), VECTORS: _sha256(buffer.getvalue())},
        "journal": {"offset": bank.journal.offset, "sha256": bank.journal.prefix_digest(bank.journal.offset)},
        "memory": asdict(bank.config),
    }
    try:
        shutil.rmtree(partial, ignore_errors=True)
        write_atomic(partial / RECORDS, lines)
        write_atomic(partial / VECTORS, buffer.getvalue())
        write_json(partial / MANIFEST, manifest)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)
        fsync_folder(folder.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise MemoryStoreError(
            f"The bank snapshot {folder} cannot be written ({error.strerror}); free space there."
        ) from error
    return manifest


def load_snapshot(folder: Path, embedder: Embedder | None = None) -> tuple[BankState, dict[str, Any]]:
    """The records of a snapshot and its manifest. Raises `MemoryStoreError` when it is damaged, missing, or of another
    embedder than the given one."""
    folder = Path(folder)
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        data = {name: (folder / name).read_bytes() for name in (RECORDS, VECTORS)}
        if manifest["format"] != FORMAT or any(_sha256(data[name]) != manifest["sha256"][name] for name in data):
            raise ValueError("its files do not match its manifest")
        records = [Record.from_json(json.loads(line)) for line in data[RECORDS].splitlines()]
        vectors = np.load(io.BytesIO(data[VECTORS]), allow_pickle=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MemoryStoreError(
            f"The bank snapshot {folder} cannot be used ({error}); choose another checkpoint."
        ) from error
    if embedder is not None:
        check_header(manifest, {"embedder": embedder.fingerprint.to_json()}, folder / MANIFEST)
    state = BankState(
        {r.id: r for r in records}, {r.id: v for r, v in zip(records, vectors, strict=True)}, manifest["update"]
    )
    return state, manifest


def load_view(folder: Path, embedder: Embedder) -> BankView:
    """The retrievable records of a snapshot: what evaluation reads."""
    state, _ = load_snapshot(folder, embedder)
    return BankView(state, embedder.fingerprint)


def restore(snapshot: Path, config: MemoryConfig, embedder: Embedder, folder: Path, run: str = "run") -> Bank:
    """The bank of a snapshot, in `folder`: its journal is cut back to the snapshot's offset, or, where that journal is
    missing or another one, written anew from the records. The mirror is dropped and refilled. Edits by hand that came
    after the snapshot are made again, as far as their records exist."""
    state, manifest = load_snapshot(snapshot, embedder)
    journal, offset = Path(folder) / JOURNAL, manifest["journal"]["offset"]
    edits: list[Event] = []
    if _prefix_sha256(journal, offset) == manifest["journal"]["sha256"]:
        edits = _edits_after(journal, offset, embedder)
        bank = Bank(config, embedder, folder, run, keep=offset)
    else:
        bank = Bank(config, embedder, folder, run, keep=0)
        insert(bank, state, "restore", f"restored from {Path(snapshot).name}", manifest["update"])
    if bank.digest() != manifest["digest"]:
        bank.close()
        raise MemoryStoreError(
            f"The journal in {folder} and the snapshot {snapshot} disagree; choose another checkpoint."
        )
    possible = [e for e in edits if (e.id in bank.records) != (e.kind == "add")]
    if edits:
        log.warning("%d of %d edits by hand after the checkpoint are made again.", len(possible), len(edits))
    if possible:
        bank.apply([replace(e, update=manifest["update"]) for e in possible])
        bank.commit(manifest["update"])
    return bank


def _edits_after(journal: Path, offset: int, embedder: Embedder) -> list[Event]:
    """What people did (`mh-train bank archive|pin|import`) in the part of a journal that is about to be cut off."""
    try:
        read = Journal(journal, {"embedder": embedder.fingerprint.to_json()}, read_only=True)
    except MemoryStoreError as error:  # damaged behind the checkpoint, which is all that is needed
        log.warning("Edits by hand after the checkpoint cannot be read: %s", error)
        return []
    late = (events for (_, events), end in zip(read.blocks, read.ends, strict=True) if end > offset)
    return [event for events in late for event in events if event.actor in BY_HAND]


def start_from(snapshot: Path, bank: Bank) -> None:
    """Fill a new, empty bank with the records of a snapshot (`memory.start_from`), under update -1."""
    if bank.records:
        raise MemoryStoreError(
            f"memory.start_from needs a new bank, but {bank.folder} holds {len(bank.records)} memories."
        )
    state, manifest = load_snapshot(snapshot, bank.embedder)
    insert(bank, state, "start_from", f"from run {manifest['run']}, update {manifest['update']}", -1)


def insert(bank: Bank, state: BankState, actor: str, reason: str, update: int) -> None:
    """Add all records of a state to an empty bank and seal them."""
    names = sorted(state.records)
    bank.apply([add_event(state.records[n], state.vectors[n], update, actor, reason) for n in names])
    bank.commit(update)


def _prefix_sha256(path: Path, length: int) -> str:
    if not path.is_file() or path.stat().st_size < length:
        return ""
    with open(path, "rb") as file:
        return _sha256(file.read(length))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
