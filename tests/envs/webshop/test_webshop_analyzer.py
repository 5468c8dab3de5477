"""Words and stems as Lucene's English analyzer makes them (more of them in the parity tests)."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.webshop import analyzer
from envs.webshop.analyzer import LONGEST_TOKEN, analyze
from envs.webshop.porter import stem


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("the women's 7.5-inch sandals", ["women", "7.5", "inch", "sandal"]),
        ("1,000 x_y_ a.b:c d;e 3;4 a.5", ["1,000", "x_y_", "a.b:c", "d", "e", "3;4", "5"]),
        ("don’t can't o’s", ["don’t", "can't", "o"]),
        ("★ top™ ✔️ 1️⃣ 👩‍🚀", ["★", "top", "™", "✔️", "1️⃣", "👩‍🚀"]),
        ("日本 かな カタカナ", ["日", "本", "か", "な", "カタカナ"]),
        ("!!! --- ()", []),
        ("to be or not", []),
        ("", []),
    ],
)
def test_words(text, terms):
    assert analyze(text) == terms


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("feed", "feed"),
        ("agreed", "agre"),
        ("plastered", "plaster"),
        ("motoring", "motor"),
        ("hopping", "hop"),
        ("filing", "file"),
        ("falling", "fall"),
        ("happy", "happi"),
        ("sky", "sky"),
        ("relational", "relat"),
        ("conformably", "conform"),
        ("archaeology", "archaeolog"),
        ("adjustment", "adjust"),
        ("adoption", "adopt"),
        ("controll", "control"),
        ("rate", "rate"),
        ("as", "as"),
    ],
)
def test_stems(word, expected):
    assert stem(word) == expected


TEXT = st.text(st.sampled_from("ab1_.,:;'’ \"-é★™️‍#日カ\u0301\u202f\n\x00") | st.characters(), max_size=40)


@settings(deadline=None)
@given(TEXT, TEXT)
def test_no_word_crosses_a_blank(a, b):
    """So that texts may be analysed in stretches."""
    words = analyzer._TOKEN.findall
    assert words(f"{a} {b}") == words(a) + words(b)


@settings(deadline=None)
@given(st.text(st.characters(max_codepoint=127), max_size=40))
def test_the_fast_engine_finds_the_same_words_in_ascii(text):
    assert analyzer._ASCII_TOKEN.findall(text) == analyzer._TOKEN.findall(text)


def test_words_beyond_lucenes_buffer_are_cut():
    assert analyze("x" * (2 * LONGEST_TOKEN + 5)) == ["x" * LONGEST_TOKEN] * 2 + ["xxxxx"]
    assert analyze("7" * LONGEST_TOKEN) == ["7" * LONGEST_TOKEN]


@pytest.mark.parametrize("piece", ["a", "_", "_\u0301", "a_", "\u200d", "'", "😀\u200d", 'א"', "\x00", "."])
def test_time_grows_with_length_and_not_faster(piece):
    """Without a blank, so that nothing is cut into stretches. A quadratic scan would take minutes."""
    start = time.process_time()
    analyze(piece * (50_000 // len(piece)))
    assert time.process_time() - start < 5


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(analyzer, "_MOST_REMEMBERED", 10)
    memo = analyzer._Memo(str.upper)
    for i in range(100):
        assert memo[f"word{i}"] == f"WORD{i}"
    memo["x" * 100]
    assert len(memo) <= 10
