"""Trajectories on disk: one JSON line per episode, what a person reads first, token ids last.

Why: everything that is shown, learnt or distilled can be looked up in the run folder, and read back as it was.
Invariants: `read_trajectories` gives back equal trajectories for any text, lone surrogates included; a file is whole or
absent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from mh_train.agent.types import MemoryHit, Retrieval, Step, Trajectory, Turn
from mh_train.files import write_jsonl
from mh_train.rollout.panels import RolloutError

NESTED = ("steps", "retrievals", "turns")
LAST = ("prompt_ids", "completion_ids", "logprobs")


def write_trajectories(path: Path, trajectories: Sequence[Trajectory]) -> None:
    """Replace `path` by one JSON line per trajectory, durably."""
    write_jsonl(path, map(to_json, trajectories))


def read_trajectories(path: Path) -> list[Trajectory]:
    """The trajectories of a file. Raises `RolloutError` naming the line that is not one."""
    found = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                found.append(from_json(json.loads(line)))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise RolloutError(f"{path} line {number} is not a trajectory ({error}).") from error
    return found


def to_json(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as plain JSON: its own fields, then steps, retrievals and turns."""
    plain = {f.name: getattr(trajectory, f.name) for f in fields(Trajectory) if f.name not in NESTED}
    turns = [_turn_json(turn) for turn in trajectory.turns]
    steps, retrievals = map(asdict, trajectory.steps), map(asdict, trajectory.retrievals)
    return {**plain, "steps": list(steps), "retrievals": list(retrievals), "turns": turns}


def from_json(value: Mapping[str, Any]) -> Trajectory:
    """The inverse of `to_json` after a way through JSON."""
    return Trajectory(
        **{key: item for key, item in value.items() if key not in NESTED},
        steps=[Step(**{**step, "admissible": tuple(step["admissible"])}) for step in value["steps"]],
        retrievals=[
            Retrieval(**{**retrieval, "hits": tuple(MemoryHit(**hit) for hit in retrieval["hits"])})
            for retrieval in value["retrievals"]
        ],
        turns=[Turn(**{**turn, **{key: tuple(turn[key]) for key in LAST}}) for turn in value["turns"]],
    )


def _turn_json(turn: Turn) -> dict[str, Any]:
    names = [f.name for f in fields(Turn)]
    return {name: getattr(turn, name) for name in sorted(names, key=lambda name: name in LAST)}
