"""What an episode gets from a view."""

import asyncio
import pickle
from dataclasses import replace

import numpy as np
import pytest
from memory_parts import EMBEDDER, add, memory_config, open_bank, query, record

from mh_train.config.schema import DedupConfig
from mh_train.memory.embed import HashingEmbedder
from mh_train.memory.reader import BankReader
from mh_train.memory.records import MemoryStoreError

KITCHEN = [
    record("bread is in the drawer", task="a", source_state="a kitchen with a clock"),
    record("bread is in the drawer now", task="b"),
    record("the egg goes into the microwave", task="c"),
    record("bread is in the drawer", env="webshop", task="d"),
    record("bread was archived", task="e", state="archived"),
    record("bread is provisional", task="f", state="provisional"),
]


def reader(folder, training=False, **values) -> BankReader:
    bank = open_bank(folder, **values)
    add(bank, *KITCHEN)
    return BankReader(bank.view(), EMBEDDER, bank.config, training=training)


def ask(reader: BankReader, *queries):
    async def together():
        return await asyncio.gather(*(reader.retrieve(q) for q in queries))

    return asyncio.run(together())


def test_hits_are_the_best_retrievable_records_of_the_environment(tmp_path):
    (hits,) = ask(reader(tmp_path), query("where is the bread"))
    assert [hit.memory for hit in hits] == [KITCHEN[0].content, KITCHEN[1].content, KITCHEN[2].content]
    assert hits[0].source_state == "a kitchen with a clock" and hits[0].record_id == KITCHEN[0].id
    assert hits[0].score == pytest.approx(hits[0].terms["cosine"], abs=1e-5)


def test_k_and_an_empty_bank(tmp_path):
    (hits,) = ask(reader(tmp_path / "k", k=1), query("where is the bread"))
    assert len(hits) == 1
    empty = open_bank(tmp_path / "empty")
    assert ask(BankReader(empty.view(), EMBEDDER, empty.config), query("anything")) == [[]]


def test_read_dedup_takes_the_next_distinct_record(tmp_path):
    (hits,) = ask(reader(tmp_path, k=2, dedup=DedupConfig(read=0.8)), query("where is the bread"))
    assert [hit.memory for hit in hits] == [KITCHEN[0].content, KITCHEN[2].content]


def test_own_task_is_hidden_in_training_only(tmp_path):
    asked = query("where is the bread", task="a")
    (training,) = ask(reader(tmp_path / "t", training=True, exclude_same_task=True), asked)
    (evaluation,) = ask(reader(tmp_path / "e", exclude_same_task=True), asked)
    assert KITCHEN[0].id not in [hit.record_id for hit in training]
    assert evaluation[0].record_id == KITCHEN[0].id


def test_hybrid_relevance_sees_words_of_the_source_state(tmp_path):
    asked = query("kitchen clock microwave")
    (plain,) = ask(reader(tmp_path / "p", k=1), asked)[0]
    (best,) = ask(reader(tmp_path / "h", k=1, hybrid=True, lexical_weight=0.9), asked)[0]
    assert plain.memory == KITCHEN[2].content and best.memory == KITCHEN[0].content
    assert best.terms.keys() == {"cosine", "lexical"} and best.score == pytest.approx(
        sum(best.terms.values()), abs=1e-5
    )


def test_what_a_query_gets_does_not_depend_on_the_others(tmp_path):
    one = reader(tmp_path, hybrid=True)
    queries = [query(text) for text in ("bread", "egg microwave", "", "clock", "drawer now")]
    assert ask(one, *queries) == [ask(one, q)[0] for q in queries]
    assert one.stats.queries == 10 and one.stats.metrics()["memory/hit_rate"] == 1.0


def test_ties_go_to_the_smaller_id(tmp_path):
    bank = open_bank(tmp_path, k=3)
    add(bank, *(record("the same words", id=name) for name in ("mc", "ma", "mb", "md")))
    (hits,) = ask(BankReader(bank.view(), EMBEDDER, bank.config), query("the same words"))
    assert [hit.record_id for hit in hits] == ["ma", "mb", "mc"]


def test_a_view_cannot_be_written_and_can_be_sent(tmp_path):
    view = reader(tmp_path).view
    with pytest.raises(ValueError):
        view.matrix[0, 0] = 1
    with pytest.raises(AttributeError):
        view.records[0].content = "x"
    copy = pickle.loads(pickle.dumps(view))
    assert copy.records == view.records and np.array_equal(copy.matrix, view.matrix)


def test_a_view_stays_as_it_was_when_the_bank_goes_on(tmp_path):
    bank = open_bank(tmp_path)
    add(bank, KITCHEN[0])
    before = bank.view()
    add(bank, replace(KITCHEN[1], id="later"), update=1)
    assert len(before) == 1 and len(bank.view()) == 2


def test_a_reader_with_another_embedder_is_refused(tmp_path):
    view = reader(tmp_path).view
    with pytest.raises(MemoryStoreError, match=r"hashing \(\d+ dimensions, .*the reader has hashing \(32 dimensions"):
        BankReader(view, HashingEmbedder(32), memory_config())


def test_an_embedder_that_fails_fails_every_question_that_waits(tmp_path):
    one = reader(tmp_path)

    class Broken(HashingEmbedder):
        def encode(self, texts):
            raise MemoryStoreError("no space")

    one.embedder = Broken(64)

    async def together():
        return await asyncio.gather(*(one.retrieve(query("x")) for _ in range(3)), return_exceptions=True)

    assert [str(error) for error in asyncio.run(together())] == ["no space"] * 3
    one.embedder = EMBEDDER
    assert ask(one, query("where is the bread"))[0]


def test_slow_embedders_answer_from_a_thread(tmp_path):
    one = reader(tmp_path)

    class Slow(HashingEmbedder):
        slow = True

    quick = ask(one, query("bread"), query("egg"))
    one.embedder = Slow(64)
    assert ask(one, query("bread"), query("egg")) == quick
