"""Records, ids and text."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_parts import record

from mh_train.memory.records import (
    ID_PATTERN,
    Change,
    Descriptor,
    MemoryStoreError,
    Record,
    Signature,
    Usage,
    canonical,
    clean_text,
    record_id,
)

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=40)


@settings(deadline=None)
@given(ANY_TEXT, ANY_TEXT)
def test_a_record_survives_json_whatever_its_text(content: str, situation: str):
    one = record(
        content,
        situation=situation,
        descriptor=Descriptor(0.7, 0.6, "uncertain", 3),
        usage=Usage(3, 2, 2, 1, 1, 5),
        signature=Signature("procedural_hint", "pick", "toy", "not take", ("1", "drawer"), ("bread",)),
        conflict_links=("a", "b"),
        covers=("c",),
        timeline=(Change(0, "add", "curate", content),),
    )
    assert Record.from_json(json.loads(canonical(one.to_json()))) == one


@settings(deadline=None)
@given(ANY_TEXT)
def test_clean_text_can_be_stored_anywhere(text: str):
    clean = clean_text(text)
    assert "\0" not in clean
    assert clean.encode("utf-8").decode("utf-8") == clean
    assert clean_text(clean) == clean


@settings(deadline=None)
@given(ANY_TEXT)
def test_ids_have_the_safe_form_and_depend_on_the_parts(text: str):
    assert ID_PATTERN.fullmatch(record_id(text, 1))
    assert record_id(text, 1) == record_id(text, 1) != record_id(text, 2)
    assert record_id("ab", "c") != record_id("a", "bc")


@pytest.mark.parametrize(
    "broken", [{"id": "x' or 1"}, {"id": ""}, {"state": "deleted"}, {"type": "poem"}, {"usage": 3}]
)
def test_what_is_not_a_record_is_refused(broken: dict):
    with pytest.raises(MemoryStoreError):
        Record.from_json({**record("m").to_json(), **broken})


def test_utility_is_laplace_smoothed():
    assert Usage().utility == 0.5
    assert Usage(c_use=3).utility == pytest.approx(0.2)
    assert Usage(c_use=8, c_succ=8).utility == pytest.approx(0.9)
