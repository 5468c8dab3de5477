"""What a completion says: thought, action or query (act turns), principle or <EMPTY> (reconstruct turns).

Why: the format reward, the episode loop and the cold start must agree on one reading of the protocol (SPEC 1, 2).
Invariants: nothing here raises on any text; time is linear in its length; a completion that breaks the format but holds
one readable action still acts, it only loses its format mark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

EMPTY = "<EMPTY>"
TAGS = ("think", "action", "retrieve_memory")
_TAG = re.compile(rf"<(/?)({'|'.join(TAGS)})>")
_FORBIDDEN = re.compile(rf"<\s*/?\s*(?:{'|'.join(TAGS)}|memory_retrieve|empty)\b", re.IGNORECASE)


@dataclass(frozen=True)
class ActReply:
    """An act completion: raw texts between the tags; `action` and `query` are None unless exactly one can be read."""

    thought: str
    action: str | None
    query: str | None
    well_formed: bool
    """One non-empty think block, then exactly one of action and query, well nested (format part 1)."""


@dataclass(frozen=True)
class ReconstructReply:
    """A reconstruct completion: the principle on one line, empty when rejected."""

    guidance: str
    well_formed: bool
    """A clean principle, or exactly <EMPTY>."""


def parse_act(text: str, query_tag: str = "retrieve_memory") -> ActReply:
    """Read an act completion; `query_tag` is what the prompts call the query's tag (the standard one is always read).

    A block is an opening tag whose next protocol tag is its own closing tag. Text outside the blocks is ignored. One
    non-empty action block is executed even beside a query; a query counts only when there is no action block.
    """
    if query_tag not in TAGS:
        text = text.replace(f"<{query_tag}>", "<retrieve_memory>").replace(f"</{query_tag}>", "</retrieve_memory>")
    blocks = _blocks(text)
    thoughts, actions, queries = ([body for tag, body in blocks if tag == name] for name in TAGS)
    action = actions[0] if len(actions) == 1 and actions[0].strip() else None
    query = queries[0] if len(queries) == 1 and queries[0].strip() and not actions else None
    ordered = [tag for tag, _ in blocks] in (["think", "action"], ["think", "retrieve_memory"])
    nothing_else = len(_TAG.findall(text)) == 2 * len(blocks)
    well_formed = ordered and nothing_else and bool(thoughts[0].strip()) and (action is not None or query is not None)
    return ActReply(thoughts[0].strip() if thoughts else "", action, query, well_formed)


def parse_reconstruct(text: str) -> ReconstructReply:
    """Read a reconstruct completion: exactly <EMPTY>, empty text, or text with protocol tags in it is rejected.

    Only the first of these is well formed: "<EMPTY> because ..." is neither a principle nor a clean refusal.
    """
    principle = collapse(text)
    if principle == EMPTY:
        return ReconstructReply("", True)
    if not principle or _FORBIDDEN.search(principle):
        return ReconstructReply("", False)
    return ReconstructReply(principle, True)


def normalise_action(raw: str, lowercase: bool = False) -> str:
    """The action as the environment gets it: trimmed, inner spaces collapsed, lower-cased where it needs that."""
    action = collapse(raw)
    return action.lower() if lowercase else action


def collapse(text: str) -> str:
    """The text on one line, runs of whitespace as one space."""
    return " ".join(text.split())


def without_actions(text: str) -> str:
    """The text without the insides of its action blocks (the language rule does not judge quoted product text)."""
    pieces, at = [], 0
    tags = list(_TAG.finditer(text))
    for opening, closing in pairwise(tags):
        if _pair(opening, closing) and opening[2] == "action":
            pieces.append(text[at : opening.end()])
            at = closing.start()
    return "".join([*pieces, text[at:]])


def _blocks(text: str) -> list[tuple[str, str]]:
    tags = list(_TAG.finditer(text))
    pairs = pairwise(tags)
    return [(a[2], text[a.end() : b.start()]) for a, b in pairs if _pair(a, b)]


def _pair(opening: re.Match[str], closing: re.Match[str]) -> bool:
    return not opening[1] and bool(closing[1]) and opening[2] == closing[2]
