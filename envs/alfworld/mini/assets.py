"""What the `alfworld` package ships and the generators build on: domain, grammar, goals, floor plans, what fits where.

Why: these files are read in place instead of importing `alfworld`, whose import takes seconds and creates folders.
Invariant: nothing here is changed by a caller; every function is cached and returns the same object.
"""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from envs.base import EnvDataError


@cache
def shipped(relative: str) -> Path:
    """A file inside the installed `alfworld` package."""
    spec = importlib.util.find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise EnvDataError("The package alfworld is not installed; run: pip install alfworld==0.4.2")
    return Path(spec.submodule_search_locations[0]) / relative


@cache
def domain() -> str:
    """The PDDL domain that every game carries."""
    return shipped("data/alfred.pddl").read_text(encoding="utf-8")


@cache
def grammar() -> str:
    """The text grammar, with `UNKNOWN GOAL` where the task sentence belongs."""
    return shipped("data/alfred.twl2").read_text(encoding="utf-8")


@cache
def _constants() -> dict[str, Any]:
    return runpy.run_path(str(shipped("gen/constants.py")))


@cache
def goals() -> Mapping[str, Mapping[str, Any]]:
    """Task type -> its goal formula (`pddl`) and its two task sentences (`templates`)."""
    return runpy.run_path(str(shipped("gen/goal_library.py")))["gdict"]


@cache
def holds(kind: str) -> frozenset[str]:
    """The object kinds that a receptacle kind can contain, e.g. `Fridge` -> {`Apple`, ...}."""
    return frozenset(_constants()["VAL_RECEPTACLE_OBJECTS"].get(kind, ()))


@cache
def can(ability: str) -> frozenset[str]:
    """The object kinds with an ability: `Cleanable`, `Heatable`, `Coolable`, `Sliceable` or `Toggleable`."""
    return frozenset(_constants()["VAL_ACTION_OBJECTS"][ability])


@cache
def receptacle_kinds() -> frozenset[str]:
    """Kinds that stand still and hold things (a bowl or a box is an object)."""
    movable = frozenset(_constants()["MOVABLE_RECEPTACLES"])
    return frozenset(_constants()["RECEPTACLES"]) - movable


@cache
def containers() -> frozenset[str]:
    """Object kinds that can hold other objects (bowls, pots, boxes, ...)."""
    return frozenset(_constants()["MOVABLE_RECEPTACLES"])


@cache
def openable_kinds() -> frozenset[str]:
    """Receptacle kinds that start closed."""
    return frozenset(_constants()["OPENABLE_CLASS_LIST"]) & receptacle_kinds()


@cache
def _fitting() -> frozenset[tuple[str, str]]:
    return frozenset((thing.lower(), kind.lower()) for kind in receptacle_kinds() for thing in holds(kind))


def fits(thing: str, receptacle: str) -> bool:
    """Whether a receptacle kind can contain an object kind, both in the lower case of the engine's texts."""
    return (thing, receptacle) in _fitting()


@cache
def opens(receptacle: str) -> bool:
    """Whether a receptacle kind, in lower case, starts closed."""
    return receptacle in {kind.lower() for kind in openable_kinds()}


@cache
def scenes() -> tuple[int, ...]:
    """All floor plan numbers, ascending."""
    folder = shipped("gen/layouts")
    found = (re.match(r"FloorPlan(\d+)-openable\.json", path.name) for path in folder.iterdir())
    return tuple(sorted(int(match.group(1)) for match in found if match))


@cache
def unseen_scenes() -> frozenset[int]:
    """The floor plans that ALFRED holds out for its unseen split."""
    return frozenset(_constants()["TEST_SCENE_NUMBERS"])


@cache
def standing_points(scene: int) -> Mapping[str, tuple[float, float, int, int]]:
    """Receptacle id -> where the agent stands to use it: x and z in metres, rotation and horizon in degrees."""
    raw = json.loads(shipped(f"gen/layouts/FloorPlan{scene}-openable.json").read_text(encoding="utf-8"))
    return {name: (x, z, int(rotation), int(horizon)) for name, (x, z, rotation, horizon) in sorted(raw.items())}


@cache
def kinds_in(scene: int) -> frozenset[str]:
    """All kinds of things that occur in a floor plan, receptacles included."""
    return frozenset(json.loads(shipped(f"gen/layouts/FloorPlan{scene}-objects.json").read_text(encoding="utf-8")))
