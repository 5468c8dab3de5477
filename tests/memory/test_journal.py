"""The bank is a pure function of its journal."""

import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_parts import EMBEDDER, add, memory_config, open_bank, read_bank, record

from mh_train.memory.bank import JOURNAL, Bank
from mh_train.memory.embed import HashingEmbedder
from mh_train.memory.journal import Event, pack_vector, unpack_vector
from mh_train.memory.records import MemoryStoreError

NAMES = [f"m{i}" for i in range(6)]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["use", "archive", "conflict", "merge", "pin", "revise", "commit"]),
        *[st.sampled_from(NAMES)] * 2,
    ),
    max_size=25,
)


def filled(folder: Path, changes) -> Bank:
    bank = open_bank(folder)
    add(bank, *(record(f"memory {name}", id=name) for name in NAMES))
    for update, (kind, one, other) in enumerate(changes, 1):
        data = {
            "use": {"c_use": 2, "c_succ": 1, "accepted": 1, "rejected": 1, "accepted_succ": 0},
            "archive": {},
            "conflict": {"other": other},
            "merge": {"other": other, "fields": {"title": "joined"}},
            "pin": {"pinned": True},
            "revise": {"fields": {"quality": 0.25}, "vector": pack_vector(EMBEDDER.encode([kind])[0])},
        }
        if kind == "commit":
            bank.commit(update)
        elif one != other:
            bank.apply([Event(kind, one, update, "curate", "random", data[kind])])
    bank.commit(len(changes) + 1)
    return bank


@settings(max_examples=25, deadline=None)
@given(CHANGES)
def test_replaying_the_journal_gives_the_same_bank(tmp_path_factory, changes):
    folder = tmp_path_factory.mktemp("bank")
    bank = filled(folder, changes)
    again = read_bank(folder)
    assert again.digest() == bank.digest()
    assert again.state.update == bank.state.update
    assert {n: v.tobytes() for n, v in again.state.vectors.items()} == {
        n: v.tobytes() for n, v in bank.state.vectors.items()
    }
    other = filled(tmp_path_factory.mktemp("bank"), changes)
    assert (folder / JOURNAL).read_bytes() == (other.folder / JOURNAL).read_bytes()


@settings(max_examples=40, deadline=None)
@given(CHANGES)
def test_links_are_symmetric_and_no_record_is_lost(tmp_path_factory, changes):
    bank = filled(tmp_path_factory.mktemp("bank"), changes)
    assert set(bank.records) == set(NAMES)
    for one in bank.records.values():
        assert all(one.id in bank.records[other].conflict_links for other in one.conflict_links)
        assert len(one.timeline) >= len(one.conflict_links)


@settings(max_examples=25, deadline=None)
@given(st.floats(0, 1))
def test_a_journal_cut_anywhere_opens_at_its_last_boundary(tmp_path_factory, where):
    folder = tmp_path_factory.mktemp("bank")
    bank = open_bank(folder)
    digests, offsets = [bank.digest()], [bank.journal.offset]
    for update in range(3):
        add(bank, record(f"memory {update}", update=update), update=update)
        digests.append(bank.digest())
        offsets.append(bank.journal.offset)
    data = (folder / JOURNAL).read_bytes()
    bank.close()
    cut = offsets[0] + int(where * (len(data) - offsets[0]))
    (folder / JOURNAL).write_bytes(data[:cut])
    sealed = max(i for i, offset in enumerate(offsets) if offset <= cut)
    again = open_bank(folder)
    assert again.digest() == digests[sealed]
    add(again, record("after the crash", update=9), update=9)
    assert read_bank(folder).digest() == again.digest()


def test_a_torn_tail_is_logged_and_reading_only_leaves_it(tmp_path, caplog):
    bank = open_bank(tmp_path)
    add(bank, record("kept"))
    bank.close()
    with open(tmp_path / JOURNAL, "ab") as file:
        file.write(b'{"kind":"add","id":"m')
    before = (tmp_path / JOURNAL).read_bytes()
    with caplog.at_level(logging.WARNING):
        reader = Bank(memory_config(), EMBEDDER, tmp_path, read_only=True)
    assert [r.content for r in reader.records.values()] == ["kept"]
    assert "after the last boundary" in caplog.text
    assert (tmp_path / JOURNAL).read_bytes() == before
    with pytest.raises(MemoryStoreError, match="reading only"):
        reader.commit(1)


def test_damage_before_a_boundary_is_told_not_repaired(tmp_path):
    bank = open_bank(tmp_path)
    add(bank, record("one"), record("two"))
    bank.close()
    data = (tmp_path / JOURNAL).read_bytes()
    (tmp_path / JOURNAL).write_bytes(data.replace(b"one", b"two"))
    with pytest.raises(MemoryStoreError, match=r"damaged before its boundary of update 0.*snapshot"):
        open_bank(tmp_path)


def test_a_bank_of_another_embedder_is_refused(tmp_path):
    open_bank(tmp_path)
    with pytest.raises(MemoryStoreError, match=r"hashing \(64 dimensions.*hashing \(32 dimensions"):
        Bank(memory_config(), HashingEmbedder(32), tmp_path)


def test_two_owners_are_refused_and_readers_are_not(tmp_path):
    bank = open_bank(tmp_path)
    add(bank, record("one"))
    with pytest.raises(MemoryStoreError, match="in use by another run"):
        open_bank(tmp_path)
    with pytest.raises(MemoryStoreError, match="in use"):
        Bank(memory_config(), EMBEDDER, tmp_path, keep=0)
    assert read_bank(tmp_path).digest() == bank.digest(), "the journal was not touched"
    bank.close()
    assert open_bank(tmp_path).digest() == bank.digest()


def test_impossible_events_are_refused(tmp_path):
    bank = open_bank(tmp_path)
    with pytest.raises(MemoryStoreError, match="never added"):
        bank.apply([Event("archive", "nobody", 0, "curate", "")])
    add(bank, record("one", id="m1"))
    with pytest.raises(MemoryStoreError, match="twice"):
        add(bank, record("one", id="m1"))


def test_vectors_are_stored_exactly():
    vector = EMBEDDER.encode(["some words to hash"])[0]
    assert unpack_vector(pack_vector(vector)).tobytes() == vector.tobytes()
