"""Minimal edits of a state that take a memory's ground away, by rules; and the check that only one fact changed.

Why: whether a policy compares states shows when one fact of the current state contradicts the memory and all else stays
(MemHarness 4.5, appendix B). Rules need no model, so that anybody can make the mini environments' probe sets again.
Invariants: an edit never touches the task or the memory; what `fault` accepts differs from the state in one short place
and has the state's format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from envs.alfworld.mini.conventions import MARKERS
from envs.alfworld.reading import style_marker
from mh_train.memory.index import words

MOST_CHANGED = 6
"""Words and marks that one edit may change on either side."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
_THING = re.compile(r"\ban? ([a-z]+) (\d+)\b")
_LIST = re.compile(r"(?:#(?:, and |, | and )?)+")
_MARKS = ("[button]", "[button_]", "[clicked button]", "[SEP]", "\n", "'", '"')
_PRICE = re.compile(r"(Price: \$)(\d+(?:\.\d+)?)")
_BUDGET = re.compile(r"price lower than (\d+(?:\.\d+)?)")
_BUYING = frozenset(("buy", "buying", "purchase", "price", "cost", "budget", "cheap", "cheaper", "now"))
_TARGETS = (
    r"two (\w+)",
    r"(?:clean|heat|cool) some (\w+)",
    r"(?:clean|hot|cool) (\w+)",
    r"(?:put|find) (?:an?|some) (\w+)",
)


@dataclass(frozen=True)
class Case:
    """A state s+ in which a memory was asked for, with the memories of other records to take alternatives from."""

    goal: str
    state: str
    memory: str
    source_state: str
    others: Sequence[str] = ()


@dataclass(frozen=True)
class Edit:
    """s-, and the fact that differs, in one line."""

    state: str
    flip: str
    rule: str


def moved(case: Case) -> Edit | None:
    """What the memory names is not there any more: another thing that memories of this kind name stands in its place.

    Alternatives are the words in which other memories differ from this one and nothing else; the thing must occur
    once in the state and not in the task."""
    said, seen = words(case.memory), words(case.state)
    for at, thing in enumerate(said):
        if thing.isdigit() or thing in words(case.goal) or seen.count(thing) != 1:
            continue
        for other in case.others:
            told = words(other)
            same = len(told) == len(said) and [i for i in range(len(said)) if told[i] != said[i]] == [at]
            if same and told[at] not in seen and told[at] not in words(case.goal) and not told[at].isdigit():
                place = re.search(rf"\b{re.escape(thing)}\b", case.state, re.IGNORECASE)
                if place is None:
                    continue
                new = told[at].capitalize() if place[0][:1].isupper() else told[at]
                state = case.state[: place.start()] + new + case.state[place.end() :]
                return Edit(state, f"{thing} is gone, {told[at]} stands in its place", "moved")
    return None


def restyled(case: Case) -> Edit | None:
    """Mini ALFWorld: the marker that shows the house style, the same as where the memory was learnt, is another one."""
    marker = style_marker(_receptacles(case.state))
    if not marker or marker != style_marker(_receptacles(case.source_state)):
        return None
    others = sorted(kind.lower() for kind in MARKERS if kind.lower() != marker)
    new = others[len(case.goal) % len(others)]
    state = re.sub(rf"\b{marker} (\d+)", rf"{new} \1", case.state)
    return Edit(state, f"the house has a {new} instead of a {marker}", "restyled")


def found(case: Case) -> Edit | None:
    """ALFWorld: the place that was searched in vain holds what is looked for."""
    target = next((match[1] for match in (re.search(form, case.goal) for form in _TARGETS) if match), "")
    if not target or case.state.count("you see nothing") != 1:
        return None
    state = case.state.replace("you see nothing", f"you see a {target} 1")
    return Edit(state, f"the {target} is here", "found")


def dearer(case: Case) -> Edit | None:
    """WebShop: the product costs more than the task allows, and the memory is about buying it."""
    if not _BUYING & set(words(case.memory)):
        return None
    budget, prices = _BUDGET.search(case.goal), _PRICE.findall(case.state)
    if budget is None or len(prices) != 1 or float(prices[0][1]) >= float(budget[1]):
        return None
    raised = float(prices[0][1]) + float(budget[1])
    state = _PRICE.sub(lambda match: f"{match[1]}{raised:g}" + (".0" if raised == int(raised) else ""), case.state)
    return Edit(state, f"the price {raised:g} is above the budget of {budget[1]}", "dearer")


RULES: tuple[Callable[[Case], Edit | None], ...] = (moved, restyled, found, dearer)


def edits(case: Case) -> list[Edit]:
    """What each rule makes of a case, faulty edits left out."""
    made = [rule(case) for rule in RULES]
    return [edit for edit in made if edit is not None and not fault(case.state, edit.state)]


def fault(before: str, after: str) -> str:
    """Why s- is no minimal edit of s+: empty when exactly one place changed and the format is kept."""
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    changed = [code for code in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if code[0] != "equal"]
    if not changed:
        return "nothing changed"
    first, last = changed[0], changed[-1]
    if max(last[2] - first[1], last[4] - first[3]) > MOST_CHANGED:
        return "more than one fact changed"
    if _shape(before) != _shape(after):
        return "the format changed"
    return ""


def _shape(state: str) -> object:
    """What an edit must keep: counts of page marks, or an ALFWorld text with its lists of things blanked."""
    if "[SEP]" in state or "[button]" in state:
        return [state.count(mark) for mark in _MARKS]
    return _LIST.sub("#", _THING.sub("#", state).replace("nothing", "#"))


def _receptacles(room: str) -> list[str]:
    return [f"{kind} {number}" for kind, number in _THING.findall(room)]
