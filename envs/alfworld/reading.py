"""Reading ALFWorld's texts: the goal, the room, what is seen where.

Why: the expert knows no more than an agent, so it reads what an agent reads.
Invariant: pure functions of text; names are the engine's own ("drawer 1"), a kind is a name without its number.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from envs.alfworld.mini.conventions import MARKERS

_GOALS = (
    ("look", r"look at (?P<target>\w+) under the (?P<parent>\w+)"),
    ("look", r"examine the (?P<target>\w+) with the (?P<parent>\w+)"),
    ("two", r"(?:put|find) two (?P<target>\w+) (?:and put them )?in (?P<parent>\w+)"),
    ("put", r"put a (?P<verb>clean|hot|cool) (?P<target>\w+) in (?P<parent>\w+)"),
    ("put", r"(?P<verb>clean|heat|cool) some (?P<target>\w+) and put it in (?P<parent>\w+)"),
    ("put", r"put (?:a|some) (?P<target>\w+) (?:in|on) (?P<parent>\w+)"),
)
_SEEN = re.compile(r"you see (.*?)\.(?:\s|$)", re.DOTALL)
_NAME = re.compile(r"[a-z]+ \d+")
_INSIDE = re.compile(r"(?:On the|The) ([a-z]+ \d+)(?:, you see| is open\. In it, you see)")
_STYLE_MARKERS = tuple(kind.lower() for kind in MARKERS)
APPLIANCES = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}


@dataclass(frozen=True)
class Goal:
    """What a task sentence asks for: `form` is put, two or look; `verb` is clean, heat, cool or empty."""

    form: str
    target: str
    parent: str
    verb: str = ""


def parse_goal(sentence: str) -> Goal:
    """The goal of one of the twelve task sentences. Raises ValueError for any other sentence."""
    for form, pattern in _GOALS:
        match = re.search(pattern, sentence.strip().lower())
        if match:
            groups = match.groupdict()
            verb = groups.get("verb") or ""
            return Goal(form, groups["target"], groups["parent"], "heat" if verb == "hot" else verb)
    raise ValueError(f"The expert reads only ALFWorld's twelve task sentences, not {sentence!r}")


def kind(name: str) -> str:
    """`drawer 1` -> `drawer`."""
    return name.split(" ", 1)[0]


def things_seen(text: str) -> list[str]:
    """The names listed after "you see"; empty for "nothing"."""
    match = _SEEN.search(text)
    return _NAME.findall(match.group(1)) if match else []


def place_described(text: str) -> str:
    """The receptacle whose contents the text lists, or an empty string."""
    match = _INSIDE.search(text)
    return match.group(1) if match else ""


def lists_room(text: str) -> bool:
    """Whether the text is the first observation, which lists the room's receptacles."""
    return "in the middle of a room" in text and bool(things_seen(text))


def style_marker(receptacles: Sequence[str]) -> str:
    """The marker that shows a house style (`envs.alfworld.mini.conventions`), or "" in any other room.

    Such a room has every receptacle kind once, all appliances, and one marker."""
    kinds = [kind(name) for name in receptacles]
    markers = [name for name in kinds if name in _STYLE_MARKERS]
    small = len(set(kinds)) == len(kinds) and set(APPLIANCES.values()) <= set(kinds)
    return markers[0] if small and len(markers) == 1 else ""


def alike(receptacles: Collection[str], source: str) -> bool:
    """Whether a source state comes from a room like this one: the same style marker, else mostly the same kinds."""
    words = set(re.findall(r"[a-z]+", source))
    marker = style_marker(tuple(receptacles))
    if marker:
        return marker in words
    here = {kind(name) for name in receptacles}
    there = {kind(name) for name in things_seen(source)} or words & here
    return 2 * len(here & there) > len(here | there)
