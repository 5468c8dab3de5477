"""Text to search terms, token for token as Lucene's English analyzer: words by UAX #29, 's off, 33 stop words, Porter.

Why: a ranking equals Lucene's only when every token does. No word crosses a blank and product texts repeat themselves,
so each distinct stretch between blanks, and each distinct word, is analysed once and remembered.
Invariant: `analyze(a + " " + b) == analyze(a) + analyze(b)`, whatever a and b hold. Word classes whose Unicode
definition changed since Lucene's tables (Unicode 9) are written out here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import regex

from envs.webshop.porter import stem

T = TypeVar("T")

STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not"),
        *("of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was"),
        *("will", "with"),
    )
)
LONGEST_TOKEN = 255
"""Lucene's scanner sees that many characters at once; a longer word is cut there and read on."""

# A character and the marks that belong to it (UAX #29, WB4). Skin tones were no marks in Unicode 9.
_MARKS = r"[[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]--[\U0001F3FB-\U0001F3FF]]*+"
# Letters by today's tables that were none in Unicode 9.
_NEW_LETTERS = r"[\u02C2-\u02C5\u02D2-\u02D7\u02DE\u02DF\u02E5-\u02EB\u02ED\u02EF-\u02FF\uA720\uA721\uA789\uA78A\uAB5B]"
_LETTER = rf"[[\p{{WB=ALetter}}\p{{WB=Hebrew_Letter}}]--{_NEW_LETTERS}]{_MARKS}"
_HEBREW = rf"\p{{WB=Hebrew_Letter}}{_MARKS}"
_DIGIT = rf"[\p{{WB=Numeric}}\uFF10-\uFF19]{_MARKS}"
_KATAKANA = rf"\p{{WB=Katakana}}{_MARKS}"
_JOINER = rf"\p{{WB=ExtendNumLet}}{_MARKS}"
_IN_WORD = rf"[:\u00B7\u02D7\u0387\u05F4\u2027\uFE13\uFE55\uFF1A.\u2018\u2019\u2024\uFE52\uFF07\uFF0E']{_MARKS}"
_IN_NUMBER = (
    r"[,;\u037E\u0589\u060C\u060D\u066C\u07F8\u2044\uFE10\uFE14\uFE50\uFE54\uFF0C\uFF1B"
    rf".\u2018\u2019\u2024\uFE52\uFF07\uFF0E']{_MARKS}"
)
_RUN = (
    rf"(?:{_KATAKANA}(?:(?:{_JOINER})*+{_KATAKANA})*"
    rf"|(?:{_HEBREW}(?:'{_MARKS}|\"{_MARKS}{_HEBREW})"
    rf"|{_DIGIT}(?:(?:(?:{_JOINER})*+|{_IN_NUMBER}){_DIGIT})*"
    rf"|{_LETTER}(?:(?:(?:{_JOINER})*+|{_IN_WORD}){_LETTER})*)+)"
)
# A word starts at the first of several joiners (and an emoji at the first zero-width joiner): else a megabyte of them
# would be read again from each.
_LEADING = rf"(?:(?=\p{{WB=ExtendNumLet}})(?<!\p{{WB=ExtendNumLet}}{_MARKS[:-1]})(?:{_JOINER})++)?"
_WORD = rf"{_LEADING}{_RUN}(?:(?:{_JOINER})++{_RUN})*(?:{_JOINER})*+"
# Emoji are words too (UTS #51): Extended_Pictographic of Emoji 11.0, from which later versions took symbols such as ★.
_EMOJI_CHAR = (
    r"[\xA9\xAE\u203C\u2049\u2122\u2139\u2194-\u2199\u21A9\u21AA\u231A\u231B\u2328\u2388\u23CF\u23E9-\u23F3"
    r"\u23F8-\u23FA\u24C2\u25AA\u25AB\u25B6\u25C0\u25FB-\u25FE\u2600-\u2605\u2607-\u2612\u2614-\u2685\u2690-\u2705"
    r"\u2708-\u2712\u2714\u2716\u271D\u2721\u2728\u2733\u2734\u2744\u2747\u274C\u274E\u2753-\u2755\u2757\u2763-\u2767"
    r"\u2795-\u2797\u27A1\u27B0\u27BF\u2934\u2935\u2B05-\u2B07\u2B1B\u2B1C\u2B50\u2B55\u3030\u303D\u3297\u3299"
    r"\U0001F000-\U0001F0FF\U0001F10D-\U0001F10F\U0001F12F\U0001F16C-\U0001F171\U0001F17E\U0001F17F\U0001F18E"
    r"\U0001F191-\U0001F19A\U0001F1AD-\U0001F1E5\U0001F201-\U0001F20F\U0001F21A\U0001F22F\U0001F232-\U0001F23A"
    r"\U0001F23C-\U0001F23F\U0001F249-\U0001F3FA\U0001F400-\U0001F53D\U0001F546-\U0001F64F\U0001F680-\U0001F6FF"
    r"\U0001F774-\U0001F77F\U0001F7D5-\U0001F7FF\U0001F80C-\U0001F80F\U0001F848-\U0001F84F\U0001F85A-\U0001F85F"
    r"\U0001F888-\U0001F88F\U0001F8AE-\U0001F8FF\U0001F90C-\U0001F93A\U0001F93C-\U0001F945\U0001F947-\U0001FFFD]"
)
# Its marks; a zero-width joiner that leads to another emoji is none.
_EMOJI_MARKS = (
    r"(?:[[\p{WB=Extend}\p{WB=Format}]--[\uFE0E\uFE0F\U0001F3FB-\U0001F3FF]]"
    rf"|\u200D(?!\u200D*(?:{_EMOJI_CHAR}|[\U0001F3FB-\U0001F3FF])))*"
)
_EMOJI_ONE = (
    rf"(?:\u200D*{_EMOJI_CHAR}{_EMOJI_MARKS}\uFE0F?"
    rf"|(?:\u200D*\p{{Emoji_Modifier_Base}}{_EMOJI_MARKS})?[\U0001F3FB-\U0001F3FF]{_EMOJI_MARKS})"
)
_EMOJI = (
    rf"(?<!\u200D){_EMOJI_ONE}(?:\u200D{_EMOJI_ONE})*"
    rf"|[#*]{_EMOJI_MARKS}\uFE0F?\u20E3{_EMOJI_MARKS}"
    rf"|(?:\p{{WB=Regional_Indicator}}{_MARKS}){{2}}"
)
_TOKEN = regex.compile(
    rf"{_WORD}|{_EMOJI}|(?:\p{{LB=SA}}{_MARKS})+|\p{{Script=Han}}{_MARKS}|\p{{Script=Hiragana}}{_MARKS}",
    regex.V1,
)
# The same words in texts of ASCII alone, for the faster engine of the standard library.
_ASCII_RUN = r"(?:[0-9]+(?:(?:_+|[.,;'])[0-9]+)*|[A-Za-z]+(?:(?:_+|[.:'])[A-Za-z]+)*)+"
_ASCII_TOKEN = re.compile(rf"(?:(?<!_)_+)?{_ASCII_RUN}(?:_+{_ASCII_RUN})*_*")
_LONGEST_REMEMBERED = 64
_MOST_REMEMBERED = 200_000
_APOSTROPHES = "'\u2019\uff07"


def analyze(text: str) -> list[str]:
    """The search terms of a text, in order and with repeats. Text of documents and queries is lower-cased before."""
    terms_of = _terms_of
    return [term for stretch in text.split(" ") for term in terms_of[stretch]]


def _term(token: str) -> str:
    """The term of one word; empty for a stop word."""
    if len(token) >= 2 and token[-1] in "sS" and token[-2] in _APOSTROPHES:
        token = token[:-2]
    token = token.lower()
    return "" if token in STOP_WORDS else stem(token)


def _terms(stretch: str) -> tuple[str, ...]:
    """The terms of a text without blanks."""
    tokens: Iterable[str]
    if len(stretch) > LONGEST_TOKEN:
        tokens = _cut_tokens(stretch)
    elif stretch.isascii():
        tokens = (stretch,) if stretch.isalnum() else _ASCII_TOKEN.findall(stretch)
    else:
        tokens = _TOKEN.findall(stretch)
    return tuple([term for token in tokens if (term := _term_of[token])])


def _cut_tokens(text: str) -> Iterator[str]:
    """Words of a text that may hold longer ones than Lucene's scanner sees; this too looks no further ahead."""
    position = 0
    while position < len(text):
        found = _TOKEN.search(text, position, position + 2 * LONGEST_TOKEN)
        if not found:
            position += LONGEST_TOKEN
            continue
        start = found.start()
        token = _TOKEN.match(text, start, start + LONGEST_TOKEN)
        position = token.end() if token else start + 1
        if token:
            yield token.group()


class _Memo(dict[str, T]):
    """Results of a function of short texts; bounded, so that endless new input costs time and not memory."""

    def __init__(self, function: Callable[[str], T]) -> None:
        self._function = function

    def __missing__(self, text: str) -> T:
        result = self._function(text)
        if len(text) <= _LONGEST_REMEMBERED:
            if len(self) >= _MOST_REMEMBERED:
                self.clear()
            self[text] = result
        return result


_term_of = _Memo(_term)
_terms_of = _Memo(_terms)
