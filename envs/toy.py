"""A toy environment in pure Python: three rooms, one key, one chest. For tests, for docs, for learning the contract.

Why: it starts in no time, needs no data and still has what memory needs: where a key of some colour lies is a habit of
the house, so an agent that remembers need not search.
Invariant: the same task and actions give the same text, everywhere.
Check it with `mh-train env check toy`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

from envs.base import EnvDataError, Expert, Observation, Task, TextEnv

PLACES = {"hall": "drawer", "kitchen": "cupboard", "study": "desk"}
COLOURS = ("red", "blue", "green", "white", "black", "yellow")
USUAL = dict(zip(COLOURS, ("kitchen", "study", "hall", "study", "kitchen", "hall"), strict=True))
SIZES = {"train": 24, "valid_seen": 12, "valid_unseen": 12}


class ToyEnv(TextEnv):
    """Tasks `unlock` (find the key, open the chest in the hall) and `fetch` (find the key)."""

    name: ClassVar[str] = "toy"
    splits: ClassVar[tuple[str, ...]] = tuple(SIZES)
    task_types: ClassVar[tuple[str, ...]] = ("unlock", "fetch")
    lowercase_actions: ClassVar[bool] = True

    @classmethod
    def tasks(cls, split: str, **options: Any) -> list[Task]:
        """All tasks of a split. Raises `EnvDataError` for an unknown split."""
        if split not in SIZES:
            raise EnvDataError(f"toy has no split {split!r}; it has {', '.join(SIZES)}.")
        return [_task(split, number) for number in range(SIZES[split])]

    def reset(self, task: Task) -> Observation:
        """Start in the hall, with nothing."""
        self._task, self._room, self._key, self._won = task, "hall", False, False
        return self._see(self._room_text(), first=True)

    def step(self, action: str) -> Observation:
        """One action; anything that is not admissible changes nothing."""
        if action not in self._admissible():
            return self._see("Nothing happens.", accepted=False)
        return self._see(self._do(action))

    def _do(self, action: str) -> str:
        if action.startswith("go to "):
            self._room = action.removeprefix("go to ")
            return self._room_text()
        if action.startswith("search "):
            here = not self._key and self._task.data["room"] == self._room
            self._key = self._key or here
            self._won = self._won or (here and self._task.type == "fetch")
            found = f"You take the {self._task.data['colour']} key." if here else "You find nothing."
            return f"You search the {PLACES[self._room]}. {found}"
        if action == "unlock chest":
            self._won = self._won or self._key
            return "The chest is open." if self._key else "The chest is locked and you have no key."
        return f"You are in the {self._room}. You have {'the key' if self._key else 'nothing'}."

    def _room_text(self) -> str:
        return f"You are in the {self._room}. There is a {PLACES[self._room]}{' and a chest' * (self._room == 'hall')}."

    def _admissible(self) -> tuple[str, ...]:
        moves = [f"go to {room}" for room in PLACES if room != self._room]
        return (*moves, f"search {PLACES[self._room]}", *(["unlock chest"] if self._room == "hall" else []), "look")

    def _see(self, text: str, accepted: bool = True, first: bool = False) -> Observation:
        goal = _goal(self._task)
        return Observation(
            text=f"{text}\n\nYour task is to: {goal}" if first else text,
            shown=text if first else "",
            admissible=self._admissible(),
            goal=goal,
            score=float(self._won),
            won=self._won,
            done=self._won,
            accepted=accepted,
        )

    @classmethod
    def expert(cls, seed: int, **options: Any) -> ToyExpert:
        """A searcher that follows what it remembers."""
        return ToyExpert(seed)


class ToyExpert(Expert):
    """Searches the rooms in a seeded order, the remembered one first."""

    def __init__(self, seed: int) -> None:
        self._order = random.Random(seed).sample(list(PLACES), len(PLACES))
        self._searched: set[str] = set()
        self._key = False

    def act(self, observation: Observation, guidance: str) -> tuple[str, str]:
        """Go to the next room, search it, and bring the key home."""
        self._key = self._key or "You take the" in observation.text
        self._searched |= {room for room, place in PLACES.items() if f"You search the {place}." in observation.text}
        here = next(room for room in PLACES if f"search {PLACES[room]}" in observation.admissible)
        if self._key:
            return "I have the key.", "unlock chest" if here == "hall" else "go to hall"
        told = [room for room, place in PLACES.items() if place in guidance]
        room = next((room for room in told + self._order if room not in self._searched), here)
        if room != here:
            return f"The {room} is next.", f"go to {room}"
        return f"I search the {PLACES[room]}.", f"search {PLACES[room]}"

    def query(self, observation: Observation) -> str:
        """Ask for the key by its colour."""
        return f"where is the {_colour(observation.goal)} key"

    def reconstruct(self, observation: Observation, memories: Sequence[tuple[str, str]]) -> str:
        """The place of a key of the same colour, or nothing."""
        for memory, _ in memories:
            place = next((place for place in PLACES.values() if place in memory), "")
            if _colour(observation.goal) in memory and place:
                return f"Search the {place} first."
        return ""

    def distill(self, goal: str, steps: Sequence[tuple[str, str]], won: bool) -> tuple[str, str] | None:
        """Where the key was."""
        searches = [action.removeprefix("search ") for _, action in steps if action.startswith("search ")]
        if not (won and searches):
            return None
        return f"looking for the {_colour(goal)} key", f"the {_colour(goal)} key was in the {searches[-1]}"


def _task(split: str, number: int) -> Task:
    colour = COLOURS[number % len(COLOURS)]
    kind = ToyEnv.task_types[number // len(COLOURS) % 2]
    return Task(f"{split}-{number:03d}", "toy", split, kind, {"colour": colour, "room": USUAL[colour]})


def _goal(task: Task) -> str:
    return f"find the {task.data['colour']} key" + (" and unlock the chest." if task.type == "unlock" else ".")


def _colour(goal: str) -> str:
    return next(colour for colour in COLOURS if colour in goal.split())
