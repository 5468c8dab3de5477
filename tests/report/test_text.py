"""Texts are cut with a note, settings lose their secrets and nothing else."""

import math

from mh_train.report.text import clip, number, without_secrets


def test_only_the_values_of_secret_keys_and_logins_are_hidden():
    settings = {
        "engine": {"options": {"api_key": "a", "model": "m", "base": "https://me:pass@host/v1"}},
        "milvus": {"token": "", "uri": "http://host"},
        "env": {"prompt_tokens": 896, "completion_token": 3, "names": ["http://you@host"]},
        "limit": math.inf,
    }
    assert without_secrets(settings) == {
        "engine": {"options": {"api_key": "(hidden)", "model": "m", "base": "https://host/v1"}},
        "milvus": {"token": "", "uri": "http://host"},
        "env": {"prompt_tokens": 896, "completion_token": 3, "names": ["http://host"]},
        "limit": "inf",
    }


def test_a_text_is_cut_with_a_note_of_how_much_is_missing():
    assert clip("short") == "short"
    assert clip("x" * 30, longest=10) == "xxxxxxxxxx … [20 more characters are in the run folder]"


def test_what_json_cannot_hold_is_none():
    assert [number(value) for value in (math.nan, math.inf, "1", True, None)] == [None] * 5
    assert number(0.123456789, 3) == 0.123
