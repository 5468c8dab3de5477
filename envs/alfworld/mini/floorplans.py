"""Games of all six task types in the 120 floor plans that `alfworld` ships, split as ALFRED splits them.

A floor plan gives receptacles with the points where one stands to use them (some share a point, as in the real games)
and the kinds of things that occur. What the plans do not locate (stove burners, toaster, toilet, ...) gets a fixed
place of its own. Objects are put anywhere where their kind fits.
Invariants: a floor plan has the same receptacles in every game and for every seed; `valid_unseen` plays in ALFRED's
held-out floor plans, the other splits never do.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache

from envs.alfworld.mini import assets
from envs.alfworld.mini.game import (
    CLEAN,
    COOL,
    HEAT,
    LOOK,
    PICK,
    PROCESS,
    TASK_TYPES,
    TWO,
    Game,
    Point,
    Receptacle,
    Thing,
    thor_id,
)

LAMP = "DeskLamp"
_LAMP_PLACES = ("Desk", "DiningTable", "Dresser", "Shelf", "SideTable")
_KITCHEN, _LIVING_ROOM, _BEDROOM, _BATHROOM = 0, 2, 3, 4
"""Hundreds of the scene numbers."""
_ROOMS = {
    PICK: (_KITCHEN, _LIVING_ROOM, _BEDROOM, _BATHROOM),
    TWO: (_KITCHEN, _LIVING_ROOM, _BEDROOM, _BATHROOM),
    LOOK: (_LIVING_ROOM, _BEDROOM),
    CLEAN: (_KITCHEN, _BATHROOM),
    HEAT: (_KITCHEN,),
    COOL: (_KITCHEN,),
}
_COPIES = {"StoveBurner": 4, "TowelHolder": 2}
_OTHER_KINDS = (6, 12)
"""Fewest and most kinds of things, beside the wanted one, in a room."""


@cache
def room(scene: int) -> tuple[Receptacle, ...]:
    """The receptacles of a floor plan: those with a known standing point, then one or more of each other kind in it."""
    found = []
    for name, (x, z, rotation, horizon) in assets.standing_points(scene).items():
        parts = name.split("|")
        kind = parts[-1] if parts[-1].endswith("Basin") else parts[0]
        if kind in assets.receptacle_kinds() and kind.startswith(parts[0]):
            found.append(Receptacle(name, kind, (round(4 * x), round(4 * z), rotation // 90, horizon)))
    located = {entry.kind for entry in found}
    for number, kind in enumerate(sorted((assets.kinds_in(scene) & assets.receptacle_kinds()) - located)):
        for copy in range(_COPIES.get(kind, 1)):  # copies stand side by side: one standing point serves them all
            found.append(Receptacle(thor_id(kind, 9.0, copy / 4, number), kind, (99, number, 0, 30)))
    return tuple(found)


@cache
def _kinds(scene: int) -> tuple[str, ...]:
    return tuple(sorted({entry.kind for entry in room(scene)}))


@cache
def _places(scene: int, thing: str) -> tuple[str, ...]:
    """The receptacle kinds of a floor plan in which a kind of thing may start."""
    if thing == LAMP:
        return tuple(kind for kind in _kinds(scene) if kind in _LAMP_PLACES)
    return tuple(kind for kind in _kinds(scene) if thing in assets.holds(kind))


@cache
def _movable(scene: int) -> tuple[str, ...]:
    """The kinds of things of a floor plan that can be carried and have a place in it."""
    kinds = assets.kinds_in(scene) - assets.receptacle_kinds() - assets.can("Toggleable")
    return tuple(thing for thing in sorted(kinds) if _places(scene, thing))


@cache
def _tasks(scene: int, task_type: str) -> tuple[tuple[str, str], ...]:
    """The (object kind, goal kind) pairs that make sense in a floor plan."""
    if scene // 100 not in _ROOMS[task_type]:
        return ()
    if task_type == LOOK:
        lamp = LAMP in assets.kinds_in(scene) and _places(scene, LAMP)
        return tuple((thing, LAMP) for thing in _movable(scene)) if lamp else ()
    _, appliance, ability = PROCESS.get(task_type, ("", "", ""))
    if appliance and appliance not in _kinds(scene):
        return ()
    return tuple(
        (thing, goal)
        for thing in _movable(scene)
        for goal in _places(scene, thing)
        if goal != appliance and len(_places(scene, thing)) > 1 and (not ability or thing in assets.can(ability))
    )


def games(seed: int, split: str, number: int) -> Iterator[Game]:
    """`number` games of a split; the task types in turn, floor plans, objects and goals at random."""
    held_out = assets.unseen_scenes()
    scenes = [scene for scene in assets.scenes() if (scene in held_out) == (split == "valid_unseen")]
    able = {task_type: [scene for scene in scenes if _tasks(scene, task_type)] for task_type in TASK_TYPES}
    for index in range(number):
        task_type = TASK_TYPES[index % len(TASK_TYPES)]
        rng = random.Random(f"{seed}/{split}/{index}")
        scene = rng.choice(able[task_type])
        target, parent = rng.choice(_tasks(scene, task_type))
        sentence = rng.randrange(2)
        things = _things(rng, scene, task_type, target, parent)
        yield Game(split, index, task_type, target, parent, scene, sentence, _start(scene), room(scene), things)


def _things(rng: random.Random, scene: int, task_type: str, target: str, parent: str) -> tuple[Thing, ...]:
    """The objects of one game: the wanted kind away from its goal, the lamp, and others."""
    others = [thing for thing in _movable(scene) if thing != target]
    kinds = Counter({target: rng.randint(2, 3) if task_type == TWO else rng.randint(1, 2)})
    for thing in rng.sample(others, min(len(others), rng.randint(*_OTHER_KINDS))):
        kinds[thing] = rng.randint(1, 2)
    if task_type == LOOK:
        kinds[LAMP] = 1
    things: list[Thing] = []
    for kind, copies in sorted(kinds.items()):
        barred = parent if kind == target and task_type in (PICK, TWO) else ""
        spots = [entry for entry in room(scene) if entry.kind in _places(scene, kind) and entry.kind != barred]
        for copy in range(copies):
            things.append(Thing(thor_id(kind, len(things), 1.0, copy), kind, rng.choice(spots).id))
    return tuple(things)


@cache
def _start(scene: int) -> Point:
    """A point in the middle of the room at which no receptacle can be used."""
    taken = {entry.point for entry in room(scene)}
    return next(point for x in range(100) if (point := (x, 0, 0, 0)) not in taken)
