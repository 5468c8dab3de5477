"""Porter's stemmer with the two later departures of its author (bli -> ble, logi -> log): the one that Lucene runs.

Why: search must rank as Lucene's English analyzer does, and that ends in this stemmer. Words come in lower case;
letters outside a-z count as consonants. Invariant: `stem` is a pure function, so callers may memoise it.
Source: M.F. Porter, "An algorithm for suffix stripping", 1980, and the "points of difference" on his page.
"""

from __future__ import annotations

STEP_2 = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
)
STEP_3 = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
    *("sion", "tion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)


_SUFFIXES_2 = tuple(suffix for suffix, _ in STEP_2)
_SUFFIXES_3 = tuple(suffix for suffix, _ in STEP_3)


def stem(word: str) -> str:
    """The stem of one lower-case word; words of one or two letters stay as they are."""
    if len(word) <= 2:
        return word
    word = _step_1(word)
    if word.endswith(_SUFFIXES_2):
        word = _replace(word, STEP_2)
    if word.endswith(_SUFFIXES_3):
        word = _replace(word, STEP_3)
    if word.endswith(STEP_4):
        word = _step_4(word)
    return _step_5(word)


def _is_consonant(word: str, i: int) -> bool:
    if word[i] in "aeiou":
        return False
    return word[i] != "y" or i == 0 or not _is_consonant(word, i - 1)


def _shape(word: str) -> str:
    """The word as a string of c and v, one letter each."""
    marks: list[str] = []
    for i, letter in enumerate(word):
        vowel = letter in "aeiou" or (letter == "y" and i > 0 and marks[-1] == "c")
        marks.append("v" if vowel else "c")
    return "".join(marks)


def _measure(stem_: str) -> int:
    """m in [C](VC)^m[V]: how often a vowel is followed by a consonant."""
    return _shape(stem_).count("vc")


def _ends_cvc(word: str) -> bool:
    """Ends consonant, vowel, consonant, the last one not w, x or y (-wil, -hop)."""
    return len(word) >= 3 and _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _ends_double(word: str) -> bool:
    return len(word) >= 2 and word[-1] == word[-2] and _is_consonant(word, len(word) - 1)


def _step_1(word: str) -> str:
    """Plurals, -ed and -ing, and a final y."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        if _measure(word[:-3]) > 0:
            word = word[:-1]
    else:
        for suffix in ("ed", "ing"):
            if word.endswith(suffix) and "v" in _shape(word[: -len(suffix)]):
                word = _tidy(word[: -len(suffix)])
                break
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    return word


def _tidy(word: str) -> str:
    """What is left after -ed or -ing: conflat -> conflate, hopp -> hop, fil -> file."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _ends_double(word):
        return word if word[-1] in "lsz" else word[:-1]
    return word + "e" if _measure(word) == 1 and _ends_cvc(word) else word


def _replace(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    """Apply the first rule whose suffix fits; it changes nothing when the measure before it is 0."""
    for suffix, new in rules:
        if word.endswith(suffix):
            head = word[: -len(suffix)]
            return head + new if _measure(head) > 0 else word
    return word


def _step_4(word: str) -> str:
    """Drop a suffix when the measure before it is above 1 (-sion and -tion keep their s or t)."""
    for suffix in STEP_4:
        if word.endswith(suffix):
            head = word[:-3] if suffix in ("sion", "tion") else word[: -len(suffix)]
            return head if _measure(head) > 1 else word
    return word


def _step_5(word: str) -> str:
    """A final e, and -ll."""
    if word.endswith("e"):
        m = _measure(word[:-1])
        if m > 1 or (m == 1 and not _ends_cvc(word[:-1])):
            word = word[:-1]
    if word.endswith("ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word
