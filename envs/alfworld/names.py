"""Names of things as ALFWorld shows them: "cabinet 2" for Cabinet_bar__minus_01_dot_50_bar_...

Invariant: equals `alfworld.agents.utils.misc.Demangler` without shuffling (tests/parity): per kind, ids in sorted order
get the numbers n, n-1, ..., 1. Written anew because importing alfworld creates folders and sets environment variables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_ESCAPES = (("_bar_", "|"), ("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ","))


def shown_names(ids: Iterable[str]) -> dict[str, str]:
    """The name of every id. Ids without "_bar_" (agent, types) keep theirs with one space after it, as ALFWorld has
    it."""
    ids = sorted(set(ids))
    kinds = {identifier: _kind(identifier) for identifier in ids}
    left = Counter(kind for kind in kinds.values() if kind is not None)
    names = {}
    for identifier in ids:
        kind = kinds[identifier]
        if kind is None:
            names[identifier] = f"{_unescape(identifier)} "
        else:
            names[identifier] = f"{_unescape(kind)} {left[kind]}"
            left[kind] -= 1
    return names


def _kind(identifier: str) -> str | None:
    kind, bar, _ = identifier.partition("_bar_")
    return (kind + "basin" if "basin" in identifier else kind) if bar else None


def _unescape(text: str) -> str:
    for escape, character in _ESCAPES:
        text = text.replace(escape, character)
    return text
