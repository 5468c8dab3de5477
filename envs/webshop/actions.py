"""Parses `search[words]` and `click[text]` the way the original does.

Invariant: linear in the length of the text, whatever it holds.
"""

from __future__ import annotations

import random

from envs.webshop.search import RESULTS, Searcher, TooManyTermsError
from envs.webshop.store import Store

SEARCH_TEMPLATE = "search[<your query>]"


class BadSearchError(ValueError):
    """A search that crashes the original."""


def parse(action: str) -> tuple[str, str]:
    r"""(name, argument) of an action, the argument in lower case; ("", "") when it has no such form.

    The same as `re.match(r"(.+)\[(.+)\]", action)`: only the first line counts, the name ends at the last bracket that
    still leaves an argument, and text after the argument is ignored.
    """
    line = action.split("\n", 1)[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, max(end - 1, 0))
    return (line[:start], line[start + 1 : end].lower()) if start > 0 else ("", "")


def find_products(store: Store, searcher: Searcher, words: str, seed: int) -> list[int]:
    """Rows for the words of a search action, with the original's commands: `<r>` 50 random products (drawn with
    `seed`), `<c> x` all of category x, `<q> x` all of search query x; else the ranking.

    Raises `BadSearchError` for what crashes the original: `<a> x`, `<c>` alone, more than 1024 distinct terms.
    """
    first, *rest = words.split(" ")
    if first == "<r>":
        if len(store) < RESULTS:
            raise BadSearchError(f"<r> needs {RESULTS} products.")
        return random.Random(seed).sample(range(len(store)), RESULTS)
    if first == "<a>" or (first == "<c>" and not rest):
        raise BadSearchError("The original has no answer to this search.")
    if first == "<c>":
        return store.rows_with("category", rest[0].strip())
    if first == "<q>":
        return store.rows_with("query", " ".join(rest).strip())
    try:
        return searcher.search(words)
    except TooManyTermsError as error:
        raise BadSearchError(str(error)) from error
