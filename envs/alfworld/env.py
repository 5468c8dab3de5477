"""ALFWorld as a `TextEnv`: the text games of six household tasks on the real engine.

Why: one class serves the real download and generated games; what differs is only the folder.
Invariant: `Observation.text` is the engine's text unchanged. Check with `mh-train env check alfworld`.
"""

from __future__ import annotations

from typing import Any

from envs.alfworld.data import SPLITS, TASK_TYPES, find_tasks
from envs.alfworld.engine import Engine, Turn
from envs.alfworld.expert import AlfworldExpert
from envs.alfworld.game import Games
from envs.base import EnvDataError, Observation, Task, TextEnv

_BANNER = "-= Welcome to TextWorld, ALFRED! =-"
_TASK = "Your task is to:"
_CACHE = "~/.cache/mh_train/alfworld"


class AlfworldEnv(TextEnv):
    """One slot that plays ALFWorld games.

    Options: `data`, the folder with the splits or with json_2.1.* (default `$ALFWORLD_DATA`, else ~/.cache/alfworld);
    `cache`, the folder that keeps compiled games for all processes (default ~/.cache/mh_train/alfworld; null: nowhere).
    `admissible` is the engine's list without "help", which tells nothing new; "help" is accepted nevertheless. `done`
    means won: there is no other end, and the step limit belongs to the rollout.
    """

    name = "alfworld"
    splits = SPLITS
    task_types = TASK_TYPES
    lowercase_actions = True

    def __init__(self, **options: Any) -> None:
        _, cache = _checked(**options)
        self._games = Games.shared(cache)
        self._engine = Engine()
        self._goal = ""

    @classmethod
    def tasks(cls, split: str, **options: Any) -> list[Task]:
        """All solvable games of a split, sorted by path. Raises `EnvDataError` when there are none."""
        data, _ = _checked(**options)
        return find_tasks(data, split)

    def reset(self, task: Task) -> Observation:
        """Start `task`. `shown` is the text without banner and task sentence. Raises `EnvDataError` for a broken
        game."""
        if "game" not in task.data:
            raise EnvDataError(f"Task {task.id!r} names no game file; take tasks from AlfworldEnv.tasks(split).")
        turn = self._engine.start(self._games.get(task.data["game"]))
        room, _, goal = turn.feedback.partition(_TASK)
        self._goal = goal.strip().removesuffix(".")
        return self._observe(turn, room.replace(_BANNER, "").strip())

    def step(self, action: str) -> Observation:
        """Do `action`; one that is not admissible is answered "Nothing happens."."""
        return self._observe(self._engine.step(action))

    @classmethod
    def expert(cls, seed: int, **options: Any) -> AlfworldExpert:
        """An agent that explores; `seed` draws its search order where common sense has none."""
        return AlfworldExpert(seed)

    def close(self) -> None:
        """Leave the planner's copy to the next slot of this process."""
        self._engine.close()

    def _observe(self, turn: Turn, shown: str = "") -> Observation:
        return Observation(
            text=turn.feedback,
            admissible=tuple(command for command in turn.commands if command != "help"),
            goal=self._goal,
            score=float(turn.won),
            won=turn.won,
            done=turn.won,
            accepted=turn.accepted,
            shown=shown,
        )


def _checked(data: str | None = None, cache: str | None = _CACHE, **unknown: Any) -> tuple[str | None, str | None]:
    if unknown:
        raise ValueError(f"ALFWorld has the options data and cache, not {', '.join(sorted(unknown))}.")
    return data, cache
