"""Snapshots, resume and read-only evaluation."""

import asyncio
import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest
from memory_parts import EMBEDDER, add, memory_config, open_bank, query, read_bank, record

from mh_train.config.schema import PruneConfig
from mh_train.memory.bank import JOURNAL
from mh_train.memory.embed import HashingEmbedder
from mh_train.memory.reader import BankReader
from mh_train.memory.records import MemoryStoreError, Usage
from mh_train.memory.snapshot import load_view, restore, save_snapshot, start_from
from mh_train.memory.transfer import archive


@pytest.fixture
def bank(tmp_path):
    bank = open_bank(tmp_path / "bank")
    add(bank, record("one", usage=Usage(3, 1, 2, 1, 1, 0)), record("two", state="archived"), update=0)
    return bank


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_resuming_forgets_what_came_after_the_checkpoint(bank, tmp_path):
    manifest = save_snapshot(bank, tmp_path / "snap")
    saved, journal = bank.digest(), (bank.folder / JOURNAL).read_bytes()
    add(bank, record("from an abandoned future", update=1), update=1)
    bank.close()
    again = restore(tmp_path / "snap", memory_config(), EMBEDDER, bank.folder)
    assert again.digest() == saved == manifest["digest"]
    assert (bank.folder / JOURNAL).read_bytes() == journal
    add(again, record("from the new future", update=1), update=1)
    assert read_bank(bank.folder).digest() == again.digest() != saved


def test_edits_by_hand_outlive_a_resume(bank, tmp_path, caplog):
    one, two = (next(r.id for r in bank.records.values() if r.content == text) for text in ("one", "two"))
    save_snapshot(bank, tmp_path / "snap")
    add(bank, record("from an abandoned future", id="later", update=1), update=1)
    archive(bank, [one, "later"], "it misled")
    bank.close()
    for _ in range(2):
        again = restore(tmp_path / "snap", memory_config(), EMBEDDER, bank.folder)
        assert "later" not in again.records and again.records[two] == bank.records[two]
        assert again.records[one].state == "archived"
        assert [change.event for change in again.records[one].timeline].count("archive") == 1
        assert read_bank(bank.folder).digest() == again.digest()
        again.close()
    assert "1 of 2 edits by hand" in caplog.text


def test_damage_behind_the_checkpoint_does_not_stop_a_resume(bank, tmp_path):
    saved = save_snapshot(bank, tmp_path / "snap")["digest"]
    add(bank, record("later", id="later", update=1), update=1)
    bank.close()
    path = bank.folder / JOURNAL
    path.write_bytes(path.read_bytes().replace(b'"content":"later"', b'"content":"laper"'))
    assert restore(tmp_path / "snap", memory_config(), EMBEDDER, bank.folder).digest() == saved


def test_a_snapshot_alone_is_enough(bank, tmp_path):
    save_snapshot(bank, tmp_path / "snap")
    again = restore(tmp_path / "snap", memory_config(), EMBEDDER, tmp_path / "elsewhere")
    assert again.digest() == bank.digest()
    assert read_bank(tmp_path / "elsewhere").digest() == bank.digest()
    bank.close()
    (bank.folder / JOURNAL).write_bytes((bank.folder / JOURNAL).read_bytes()[:-40])
    assert restore(tmp_path / "snap", memory_config(), EMBEDDER, bank.folder).digest() == bank.digest()


def test_a_snapshot_is_replaced_as_a_whole(bank, tmp_path):
    save_snapshot(bank, tmp_path / "snap")
    add(bank, record("three"), update=1)
    save_snapshot(bank, tmp_path / "snap")
    assert sorted(os.listdir(tmp_path / "snap")) == ["manifest.json", "records.jsonl", "vectors.npy"]
    assert {p.name for p in tmp_path.iterdir()} == {"bank", "snap"}
    bank.close()
    assert restore(tmp_path / "snap", memory_config(), EMBEDDER, bank.folder).digest() == bank.digest()


@pytest.mark.parametrize("name", ["records.jsonl", "vectors.npy", "manifest.json"])
def test_a_corrupt_snapshot_is_one_sentence(bank, tmp_path, name):
    save_snapshot(bank, tmp_path / "snap")
    data = (tmp_path / "snap" / name).read_bytes()
    (tmp_path / "snap" / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(MemoryStoreError, match=r"snapshot .* cannot be used .*; choose another checkpoint"):
        restore(tmp_path / "snap", memory_config(), EMBEDDER, bank.folder)
    os.remove(tmp_path / "snap" / name)
    with pytest.raises(MemoryStoreError, match="cannot be used"):
        load_view(tmp_path / "snap", EMBEDDER)


def test_a_snapshot_of_another_embedder_is_refused(bank, tmp_path):
    save_snapshot(bank, tmp_path / "snap")
    with pytest.raises(MemoryStoreError, match="choose the same memory"):
        load_view(tmp_path / "snap", HashingEmbedder(32))


def test_events_without_a_boundary_are_not_snapshotted(bank, tmp_path):
    bank.journal.pending.append(None)
    with pytest.raises(MemoryStoreError, match="commit"):
        save_snapshot(bank, tmp_path / "snap")


def test_a_new_run_may_start_from_a_snapshot(bank, tmp_path):
    save_snapshot(bank, tmp_path / "snap")
    new = open_bank(tmp_path / "new")
    start_from(tmp_path / "snap", new)
    assert new.records == bank.records
    with pytest.raises(MemoryStoreError, match="needs a new bank"):
        start_from(tmp_path / "snap", new)


def test_evaluation_changes_no_byte(bank, tmp_path):
    save_snapshot(bank, tmp_path / "snap")
    before = content(tmp_path)
    view = load_view(tmp_path / "snap", EMBEDDER)
    reader = BankReader(view, EMBEDDER, memory_config(k=2))
    hits = asyncio.run(reader.retrieve(query("one")))
    assert [hit.memory for hit in hits] == ["one"]
    assert content(tmp_path) == before


def test_the_manifest_says_what_the_thresholds_were(bank, tmp_path):
    save_snapshot(bank, tmp_path / "snap")
    manifest = json.loads((tmp_path / "snap" / "manifest.json").read_text())
    assert manifest["memory"]["prune"] == asdict(PruneConfig())
    assert manifest["embedder"] == EMBEDDER.fingerprint.to_json() and manifest["records"] == 2
