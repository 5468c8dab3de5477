"""How logs of the mini environments are read by the erring agent: what they support, what lesson they seem to teach.

Why: the verifier and the writer of `evaluate.erring` judge from the log as a language model would, right in most cases
and wrong in some; what a log looks like differs between environments. Invariant: a reading is a function of the log
and of the given generator; lessons quote what occurs in the log.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Protocol

from envs.alfworld.reading import kind, parse_goal, style_marker, things_seen

PASSAGE = 60
"""Characters that are quoted after a product's name, so that its own page is told from a list of products."""


@dataclass(frozen=True)
class Log:
    """What a judge's prompt shows: the task, (observation, action) pairs, whether the environment closed the
    episode."""

    goal: str
    steps: tuple[tuple[str, str], ...]
    closed: bool


@dataclass(frozen=True)
class Lesson:
    """Advice, when it holds, the passage it rests on, and the same as a warning with its condition."""

    content: str
    when: str
    evidence: str
    warning: str
    guard: str


class Reading(Protocol):
    """One environment's rules."""

    def support(self, log: Log) -> float:
        """In [0, 1]: how well the log supports that the task was done."""

    def lesson(self, log: Log, slip: bool, rng: random.Random) -> Lesson | None:
        """What the log seems to teach; with `slip` something that it does not."""


class AlfworldReading:
    """Where things are kept. A writer that did not find the thing believes it was where the agent looked last."""

    def support(self, log: Log) -> float:
        """The environment ends an episode only when the task is done."""
        return float(log.closed)

    def lesson(self, log: Log, slip: bool, rng: random.Random) -> Lesson | None:
        """`bread was in drawer` in a room with its marker."""
        target = parse_goal(log.goal).target
        found = [(place, text) for text, _ in log.steps for place in _taken(target, text)]
        visited = [action.split(" ")[-2] for _, action in log.steps if re.fullmatch(r"go to [a-z]+ \d+", action)]
        others = [place for place in visited if not found or place != found[0][0]]
        room = re.search(r"you see .*?\.", log.steps[0][0]) if log.steps else None
        place = found[0][0] if found else visited[-1] if visited else ""
        place = others[-1] if slip and others else place
        if not place or room is None:
            return None
        seen = re.search(r"You pick up .*?\.", found[0][1]) if found and place == found[0][0] else None
        proof = seen[0] if seen else next(a for _, a in reversed(log.steps) if f"go to {place} " in a)
        marker = style_marker(things_seen(log.steps[0][0]))
        when = f"{target} in a room with {marker}"
        warning = f"do not look for {target} there again before checking other places than {place}"
        return Lesson(f"{target} was in {place}", when, f"{room[0]} ... {proof}", warning, f"looking for {when}")


class WebShopReading:
    """Which brand has a quality. A writer that bought believes it bought the right thing."""

    def support(self, log: Log) -> float:
        """Bought with every wanted option: fully supported when the Features were read, else mostly."""
        wanted = {value.lower() for value in re.findall(r"\w+: (\w+)", log.goal)}
        clicked = {action[6:-1] for _, action in log.steps if action.startswith("click[")}
        if not log.closed or not wanted <= clicked:
            return 0.0
        quality = re.search(r"find me (\w+)", log.goal, re.IGNORECASE)
        read = quality is not None and any(f"It is {quality[1].lower()}" in text for text, _ in log.steps)
        return 1.0 if read else 0.75

    def lesson(self, log: Log, slip: bool, rng: random.Random) -> Lesson | None:
        """`quiet is velora`, for lamps and all else of the department."""
        goal = re.search(r"find me (\w+) (\w+) for (\w+)", log.goal, re.IGNORECASE)
        if goal is None:
            return None
        quality, thing, department = (word.lower() for word in goal.groups())
        named = re.compile(rf"(\w+) {department} {thing}\b", re.IGNORECASE)
        bought = [named.search(text) for text, action in log.steps if action == "click[buy now]"]
        seen = [match for text, _ in log.steps for match in named.finditer(text)]
        chosen = bought[-1] if bought else None
        others = [match for match in seen if chosen is None or match[1].lower() != chosen[1].lower()]
        chosen = rng.choice(others) if slip and others else chosen
        if chosen is None:
            return None
        content, when = f"{quality} is {chosen[1].lower()}", f"{quality} things for {department}"
        warning = f"check the features before buying {chosen[1].lower()} as {quality}"
        passage = chosen.string[chosen.start() : chosen.end() + PASSAGE]
        return Lesson(content, when, passage, warning, f"buying {when}")


def _taken(target: str, text: str) -> list[str]:
    """Kinds of places that a text says the target was taken from."""
    found = re.findall(r"You pick up the ([a-z]+) \d+ from the ([a-z]+ \d+)", text)
    return [kind(place) for thing, place in found if thing == target]


READINGS: dict[str, Reading] = {"alfworld": AlfworldReading(), "webshop": WebShopReading()}
"""By environment name."""
