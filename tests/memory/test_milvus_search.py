"""A bank searched through a real Milvus Lite gives what scanning it gives."""

import numpy as np
import pytest
from memory_parts import EMBEDDER, add, query, record

from mh_train.config.schema import EmbedderConfig, MemoryConfig, MilvusConfig, ScoringConfig
from mh_train.memory.bank import Bank
from mh_train.memory.journal import Event
from mh_train.memory.milvus_search import WIDTH, MilvusSearch
from mh_train.memory.reader import BankReader
from mh_train.memory.records import Descriptor

WORDS = ["bread", "egg", "mug", "drawer", "shelf", "fridge", "open", "clean", "look", "under", "near", "red", "pan"]
JUDGED = Descriptor(0.8, 0.9, "verified_success", 0)
TOLERANCE = 2e-6


def bank_of(folder, size: int, **milvus) -> Bank:
    config = MemoryConfig(
        k=5,
        hybrid=True,
        scoring=ScoringConfig(enabled=True, guard_relevance=0.0, min_relevance=0.0),
        milvus=MilvusConfig(**milvus),
        embedder=EmbedderConfig(name="hashing", dim=64),
    )
    bank = Bank(config, EMBEDDER, folder, run="search")
    rng = np.random.default_rng(0)
    types = ("procedural_hint", "procedural_hint", "failure_avoidance")
    states = ("active", "active", "active", "summary", "provisional", "archived")
    add(
        bank,
        *(
            record(
                " ".join(rng.choice(WORDS, 6)),
                id=f"m{i:04d}",
                env="toy" if i % 7 else 'x" or id != "',
                type=types[i % 3],
                state=states[i % 6],
                guard_condition="g",
                descriptor=JUDGED,
            )
            for i in range(size)
        ),
    )
    return bank


def both(bank: Bank, queries, width: int = WIDTH):
    vectors = EMBEDDER.encode([q.text for q in queries])
    scanned = BankReader(bank.view(), EMBEDDER, bank.config).rank(vectors, queries)
    searched = BankReader(bank.view(), EMBEDDER, bank.config, search=MilvusSearch(bank.mirror, width))
    return scanned, searched.rank(vectors, queries)


def test_searching_gives_what_scanning_gives(tmp_path):
    bank = bank_of(tmp_path, 120)
    try:
        rng = np.random.default_rng(1)
        asked = [query(" ".join(rng.choice(WORDS, 3))) for _ in range(20)]
        asked += [query('bread" or id != "', env='x" or id != "'), query("", env='nowhere"\\'), query("egg\0\n☃")]
        for plain, found in zip(*both(bank, asked), strict=True):
            assert [(h.record_id, h.role) for h in plain] == [(h.record_id, h.role) for h in found]
            assert [h.score for h in plain] == pytest.approx([h.score for h in found], abs=TOLERANCE)
        plain, _ = both(bank, asked)
        assert {h.role for hits in plain for h in hits} == {"positive", "summary", "guard"}
        assert plain[20] and all(bank.records[h.record_id].env == 'x" or id != "' for h in plain[20])
        assert not plain[21]
    finally:
        bank.close()


def test_a_narrow_search_keeps_the_best_of_its_candidates(tmp_path):
    bank = bank_of(tmp_path, 120)
    try:
        found = MilvusSearch(bank.mirror, 5).rows(
            bank.view(), EMBEDDER.encode(["bread egg"]), [query("bread egg")], True
        )
        assert 5 <= len(found[0]) <= 3 * 2 * 5
        _, (hits,) = both(bank, [query("bread egg")], width=5)
        assert hits and all(bank.records[h.record_id].env == "toy" for h in hits)
    finally:
        bank.close()


def test_milvus_is_asked_only_above_the_configured_size_and_only_when_it_holds_everything(tmp_path):
    bank = bank_of(tmp_path, 30, search_above=10)
    try:
        assert isinstance(bank.search(), MilvusSearch)
        bank.apply([Event("archive", "m0000", 1, "curate", "test")])
        assert bank.search() is None, "the mirror waits for the boundary"
        bank.commit(1)
        assert bank.search() is not None
        bank.config.milvus.search_above = len(bank.view())
        assert bank.search() is None
    finally:
        bank.close()
