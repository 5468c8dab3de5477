"""Panels: named, ordered, hashed lists of tasks; and the cursor that walks training through one.

Why: two results are comparable only when they are from the same tasks in the same order, and a resumed run must meet
the tasks that the killed one would have met.
Invariants: no task twice in a panel; the hash covers environment, split and ids in order; a cursor's next tasks follow
from its state alone.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.base import Task, TextEnv


class RolloutError(RuntimeError):
    """Episodes cannot be played; the message says what to do."""


@dataclass(frozen=True)
class Panel:
    """Tasks in their fixed order; `name` is the split, `hash` (16 hex digits) is stored with every result."""

    name: str
    tasks: tuple[Task, ...]
    hash: str


def make_panel(
    env_class: type[TextEnv], split: str, options: Mapping[str, Any], limit: int = 0, seed: int | None = None
) -> Panel:
    """The first `limit` (0: all) tasks of a split, in canonical order or, with a seed, in a shuffled one.

    A seeded panel with a limit is a sample without replacement, and a shorter one is the start of a longer one. Raises
    `RolloutError` when nothing is left, `EnvDataError` when the split has no data.
    """
    tasks = list(env_class.tasks(split, **options))
    if seed is not None:
        random.Random(f"panel/{seed}").shuffle(tasks)
    tasks = tasks[:limit] if limit > 0 else tasks
    if not tasks:
        raise RolloutError(f"The panel {split} of {env_class.name} is empty; check env.options and its data.")
    if len({task.id for task in tasks}) != len(tasks):
        raise RolloutError(f"The panel {split} of {env_class.name} has a task id twice; run `mh-train env check`.")
    return Panel(split, tuple(tasks), _digest(tasks))


def _digest(tasks: Sequence[Task]) -> str:
    text = "\n".join(f"{task.env}\x1f{task.split}\x1f{task.id}" for task in tasks)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class TaskCursor:
    """Walks a panel again and again, in an order of its own for every epoch, each task once per epoch."""

    def __init__(self, panel: Panel, seed: int) -> None:
        self._panel, self._seed = panel, seed
        self._epoch = self._position = 0

    def next(self, n: int) -> list[Task]:
        """The next n tasks. A draw that crosses the end of an epoch can hold a task twice."""
        drawn: list[Task] = []
        while len(drawn) < n:
            tasks = list(self._panel.tasks)
            random.Random(f"cursor/{self._seed}/{self._epoch}").shuffle(tasks)
            taken = tasks[self._position : self._position + n - len(drawn)]
            drawn += taken
            self._position += len(taken)
            if self._position == len(tasks):
                self._epoch, self._position = self._epoch + 1, 0
        return drawn

    def state_dict(self) -> dict[str, Any]:
        """Where the cursor stands, JSON-able."""
        return {"panel": self._panel.hash, "seed": self._seed, "epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state. Raises `RolloutError` when it is of another panel or seed: the tasks would differ."""
        if (state["panel"], state["seed"]) != (self._panel.hash, self._seed):
            raise RolloutError(
                "The checkpoint walked through other training tasks (panel or seed changed); restore the data and the "
                "seed, or start a new run with another name."
            )
        self._epoch, self._position = state["epoch"], state["position"]
