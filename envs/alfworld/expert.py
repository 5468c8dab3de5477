"""A scripted ALFWorld agent: searches, fetches, cleans, heats, cools, lights and puts, knowing only what it has seen.

Why: cold start needs trajectories with short thoughts, memory queries, reconstructions and distilled memories, worded
in one way so that a small policy can learn to write them. Invariants: it reads observations and admissible commands
alone; the same seed and observations give the same answers; every action it names is admissible.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from envs.alfworld.mini import assets
from envs.alfworld.reading import (
    APPLIANCES,
    Goal,
    alike,
    kind,
    lists_room,
    parse_goal,
    place_described,
    style_marker,
    things_seen,
)
from envs.base import Expert, Observation

TERSE = 0.1
"""Share of questions that leave the room out: what makes a good question is left for rewards to teach."""
_TAKEN = re.compile(r"You pick up the ([a-z]+ \d+) from the ([a-z]+ \d+)\.")
_MOVED = re.compile(r"You (?:move|put) the ([a-z]+ \d+) (?:to|in/on) the ([a-z]+ \d+)\.")
_PROCESSED = re.compile(r"You (clean|heat|cool) the ([a-z]+ \d+) using")
_MEMORY = re.compile(r"([a-z]+) was in ([a-z]+)( \d+)?")


class AlfworldExpert(Expert):
    """Plays one episode.

    It looks into plausible places first (surfaces before drawers), in rooms with a house style in random order, and
    where guidance points before anything else.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._room: list[str] = []
        self._order: list[str] = []
        self._goal = Goal("", "", "")
        self._known: dict[str, str] = {}  # thing -> the receptacle where it was last seen
        self._checked: set[str] = set()
        self._processed: set[str] = set()
        self._holding = self._origin = self._hint = self._sight = ""

    def act(self, observation: Observation, guidance: str) -> tuple[str, str]:
        """(thought, action). Raises ValueError for a goal that is not one of ALFWorld's task sentences."""
        self._enter(observation)
        self._notice(observation)
        if guidance:
            self._hint = self._place_in(guidance) or self._hint
        thought, action = self._decide(observation.admissible)
        style = style_marker(self._room)
        return (f"{style} room {thought}" if style else thought), action

    def query(self, observation: Observation) -> str:
        """The object, after what tells the room from others while it is in view: `toaster bread`, as thoughts begin."""
        self._enter(observation)
        if not lists_room(observation.text) or self._rng.random() < TERSE:
            return self._goal.target
        return f"{' '.join(_signs(self._room))} {self._goal.target}"

    def reconstruct(self, observation: Observation, memories: Sequence[tuple[str, str]]) -> str:
        """`bread is in drawer 1` from the first memory about the object that was learnt in a room like this one.

        Names the receptacle when the room has only one of its kind, otherwise the kind; empty when nothing applies."""
        self._enter(observation)
        for memory, source in memories:
            match = _MEMORY.search(memory)
            if match is None or match.group(1) != self._goal.target or not alike(self._room, source):
                continue
            places = [name for name in self._room if kind(name) == match.group(2)]
            if places:
                place = places[0] if len(places) == 1 else match.group(2)
                return f"{self._goal.target} is in {place}"
        return ""

    def distill(self, goal: str, steps: Sequence[tuple[str, str]], won: bool) -> tuple[str, str] | None:
        """(`room with toaster`, `bread was in drawer 1`): where the object was first taken from, or None when it
        was never found (then there is nothing that the episode proves)."""
        target = parse_goal(goal).target
        for observation, _ in steps:
            match = _TAKEN.search(observation)
            if match and kind(match.group(1)) == target:
                signs = _signs(things_seen(steps[0][0]))
                return f"room with {' '.join(signs)}", f"{target} was in {match.group(2)}"
        return None

    def _enter(self, observation: Observation) -> None:
        """Take in goal and room from the first observation of the episode."""
        if self._room:
            return
        self._goal = parse_goal(observation.goal)
        self._room = things_seen(observation.text)
        if style_marker(self._room):
            self._order = self._rng.sample(self._room, len(self._room))
        else:
            self._order = sorted(self._room, key=lambda name: _implausible(self._goal.target, name))

    def _notice(self, observation: Observation) -> None:
        """Update what is known from the text and from what can be taken, used or opened here."""
        text, admissible = observation.text, observation.admissible
        self._sight = _sight(text, self._goal.target)
        if match := _TAKEN.search(text):
            self._holding, self._origin = match.groups()
            self._known.pop(self._holding, None)
        elif match := _MOVED.search(text):
            self._holding = ""
            self._known[match.group(1)] = match.group(2)
        elif match := _PROCESSED.search(text):
            verb, thing = match.groups()
            if verb == self._goal.verb:
                self._processed.add(thing)
            elif {verb, self._goal.verb} == {"heat", "cool"}:  # one undoes the other
                self._processed.discard(thing)
        elif place := place_described(text):
            self._checked.add(place)
            self._known.update(dict.fromkeys(things_seen(text), place))
        here = self._here(admissible)
        for command in admissible:
            words = command.split(" ")
            if words[0] == "take":
                self._known[f"{words[1]} {words[2]}"] = f"{words[4]} {words[5]}"
            elif words[0] == "use" and here:
                self._known.setdefault(f"{words[1]} {words[2]}", here[0])
        if not self._holding:
            self._checked.update(name for name in here if f"open {name}" not in admissible)

    def _here(self, admissible: Sequence[str]) -> list[str]:
        return [name for name in self._room if f"examine {name}" in admissible]

    def _place_in(self, guidance: str) -> str:
        """The receptacle or receptacle kind that guidance about the wanted object names, or an empty string."""
        words = guidance.lower()
        if self._goal.target not in words or re.search(r"\b(not|never)\b", words):
            return ""
        names = [name for name in self._room if re.search(rf"\b{name}\b", words)]
        kinds = [kind(name) for name in self._room if re.search(rf"\b{kind(name)}s?\b", words)]
        return next(iter([*names, *kinds]), "")

    def _decide(self, admissible: Sequence[str]) -> tuple[str, str]:
        target = self._goal.target
        if self._holding and kind(self._holding) != target:
            return f"put down {kind(self._holding)}", self._put_down(admissible)
        if self._holding:
            return self._deliver(admissible)
        for thing, place in self._wanted():
            take = f"take {thing} from {place}"
            if take in admissible:
                return f"need {target}{self._sight}", take
            if place in self._here(admissible) and f"open {place}" not in admissible:
                del self._known[thing]  # it is not there any more
                continue
            return f"need {target} in {place}", self._reach(place, admissible)
        return self._search(target, admissible)

    def _wanted(self) -> list[tuple[str, str]]:
        """Known instances of the object that are not yet where they belong."""
        found = [(thing, place) for thing, place in sorted(self._known.items()) if kind(thing) == self._goal.target]
        if self._goal.form != "two":
            return found
        return [(thing, place) for thing, place in found if place != self._destination()]

    def _destination(self) -> str:
        """The receptacle to put things into: of the goal's kind, the one that already holds an instance if any."""
        places = [name for name in self._room if kind(name) == self._goal.parent]
        used = [name for name in places if name in self._instances()]
        return next(iter([*used, *places]), "")

    def _instances(self) -> set[str]:
        return {place for thing, place in self._known.items() if kind(thing) == self._goal.target}

    def _deliver(self, admissible: Sequence[str]) -> tuple[str, str]:
        """With the object in hand: to the lamp, or through the appliance to the goal's receptacle."""
        goal, held = self._goal, self._holding
        if goal.form == "look":
            use = [command for command in admissible if command.startswith(f"use {goal.parent} ")]
            if use:
                return f"use {goal.parent}", use[0]
            for thing, place in sorted(self._known.items()):
                if kind(thing) == goal.parent:
                    return f"use {goal.parent}", self._reach(place, admissible)
            return self._search(goal.parent, admissible)
        if goal.verb and held not in self._processed:
            appliance = next(name for name in self._room if kind(name) == APPLIANCES[goal.verb])
            command = f"{goal.verb} {held} with {appliance}"
            return f"{goal.verb} {goal.target}", command if command in admissible else f"go to {appliance}"
        place = self._destination()
        put = [command for command in _puts(admissible) if command.endswith(f" {place}")]
        return f"put {goal.target} in {goal.parent}", put[0] if put else self._reach(place, admissible)

    def _put_down(self, admissible: Sequence[str]) -> str:
        """Get rid of something that is not wanted: here if possible, else at the nearest thing that holds it."""
        if put := _puts(admissible):
            return put[0]
        able = [name for name in self._room if assets.fits(kind(self._holding), kind(name))]
        return self._reach(next(iter([*able, self._origin])), admissible)

    def _reach(self, place: str, admissible: Sequence[str]) -> str:
        """The next command towards a place with its door open; a place at the same standing point is looked at."""
        for command in (f"open {place}", f"go to {place}"):
            if command in admissible:
                return command
        return f"examine {place}"

    def _search(self, wanted: str, admissible: Sequence[str]) -> tuple[str, str]:
        """Go on with the first unchecked place: hinted, at hand, then in the episode's order."""
        left = [name for name in self._order if name not in self._checked]
        if not left:
            self._checked.clear()
            left = self._order
        hinted = [name for name in left if self._hint in (name, kind(name))] if wanted == self._goal.target else []
        if hinted:
            return f"need {wanted} in {self._hint}", self._reach(hinted[0], admissible)
        at_hand = [name for name in left if name in self._here(admissible)]
        return f"need {wanted}{self._sight}", self._reach([*at_hand, *left][0], admissible)


def _sight(text: str, target: str) -> str:
    """` see kettle no bread yes`: the kinds a place shows, each compared with the wanted one before deciding."""
    if lists_room(text) or not place_described(text):
        return ""
    kinds = [kind(name) for name in things_seen(text)] or ["nothing"]
    return " see " + " ".join(f"{name} {'yes' if name == target else 'no'}" for name in kinds)


def _puts(admissible: Sequence[str]) -> list[str]:
    """The commands that put down what is held (`put` in data made before ALFWorld 0.4, `move` in later data)."""
    return [command for command in admissible if command.startswith(("move ", "put "))]


def _signs(receptacles: Sequence[str]) -> list[str]:
    """What a room is known by: its style marker, else its receptacle kinds."""
    marker = style_marker(receptacles)
    return [marker] if marker else sorted({kind(name) for name in receptacles})


def _implausible(target: str, place: str) -> tuple[bool, bool]:
    """Sort key of a first search: places that hold such things first, among them those without a door."""
    return (not assets.fits(target, kind(place)), assets.opens(kind(place)))
