"""The mirror against a real Milvus Lite."""

import logging
import re

import pytest
from memory_parts import EMBEDDER, add, record

from mh_train.config.schema import EmbedderConfig, MemoryConfig, MilvusConfig
from mh_train.memory.bank import Bank
from mh_train.memory.journal import Event
from mh_train.memory.milvus import literal, own_collection
from mh_train.memory.milvus_schema import MOST_BYTES, cut, fitting
from mh_train.memory.records import MemoryStoreError, clean_text

HOSTILE = [
    '" or id != "',
    "x' or 1 == 1 or id == '",
    "back\\slash",
    "line\nbreak\ttab",
    "中文 \u2028 ☃",
    "{a} %s",
    clean_text("\ud800\0"),
]


def open_mirrored(folder) -> Bank:
    config = MemoryConfig(milvus=MilvusConfig(), embedder=EmbedderConfig(name="hashing", dim=64))
    return Bank(config, EMBEDDER, folder, run="lite")


def test_lite_holds_what_the_bank_holds_whatever_the_text(tmp_path):
    bank = open_mirrored(tmp_path)
    try:
        add(bank, *(record(text, env=text, id=f"m{i}") for i, text in enumerate(HOSTILE)))
        for i, text in enumerate(HOSTILE):
            (row,) = bank.mirror.query({"env": text})
            assert (row["id"], row["content"], row["state"]) == (f"m{i}", text, "active")
        bank.apply([Event("archive", "m0", 1, "curate", "test")])
        metrics = bank.commit(1)
        assert metrics["memory/mirror_waiting"] == metrics["memory/mirror_failures"] == 0
        (row,) = bank.mirror.query({"id": "m0"})
        assert row["state"] == "archived" and row["timeline"][-1]["reason"] == "test"
        assert len(bank.mirror.query({"state": "active"})) == len(HOSTILE) - 1
    finally:
        bank.close()
    again = open_mirrored(tmp_path)
    try:
        assert again.mirror.stored() == {"embedder": EMBEDDER.fingerprint.to_json(), "run": "lite"}
        assert len(again.mirror.query({"state": "active"})) == len(HOSTILE) - 1

        def broken(*_):
            raise MemoryStoreError("no space")

        upsert, again.mirror.upsert = again.mirror.upsert, broken
        add(again, record("while the mirror is away", id="late"), update=2)
        assert again.mirror_failures == 1 and again.records["late"].content
        again.mirror.upsert = upsert
        assert again.commit(3)["memory/mirror_waiting"] == 0
        assert again.mirror.query({"id": "late"})[0]["content"] == "while the mirror is away"
    finally:
        again.close()


def test_lites_missing_clock_is_no_error_message_and_other_failures_of_its_server_are(tmp_path, caplog):
    open_mirrored(tmp_path).close()
    assert [r for r in caplog.records if r.name == "grpc._server"] == []

    def search():
        raise NotImplementedError

    try:
        search()
    except NotImplementedError:
        logging.getLogger("grpc._server").exception("Exception calling application")
    assert [r.name for r in caplog.records] == ["grpc._server"]


def test_literals_cannot_end_early():
    assert literal('" or id != "') == '"\\" or id != \\""'
    assert literal(3) == "3"


def test_values_are_cut_to_the_servers_limit():
    assert len(cut("ü" * 70_000).encode()) <= MOST_BYTES
    assert cut("short") == "short"
    timeline = [{"reason": "x" * 1000, "update": i} for i in range(200)]
    kept = fitting(timeline)
    assert 0 < len(kept) < 200 and kept[-1]["update"] == 199


def test_an_unreachable_server_is_one_sentence(tmp_path):
    config = MemoryConfig(
        milvus=MilvusConfig(uri="http://127.0.0.1:9"), embedder=EmbedderConfig(name="hashing", dim=64)
    )
    with pytest.raises(MemoryStoreError, match=r"Milvus at http://127.0.0.1:9 could not be opened.*memory.milvus.uri"):
        Bank(config, EMBEDDER, tmp_path)


def test_runs_that_share_a_server_have_collections_of_their_own():
    names = [own_collection("memories", run) for run in ("sweep/000-seed=0", "sweep/000_seed=0", "x" * 400)]
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"[A-Za-z_]\w{0,254}", name, re.ASCII) for name in names)
