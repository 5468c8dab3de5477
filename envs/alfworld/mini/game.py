"""A generated game as plain data, its symbolic solution, and the names that the engine will give to its things.

Why: generators decide what stands where; everything else (PDDL, task sentence, walkthrough) follows from that.
Invariant: `walkthrough` returns a plan exactly when the placement makes the goal reachable; no engine is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from envs.alfworld.mini import assets
from envs.alfworld.names import shown_names

PICK, LOOK, TWO = "pick_and_place_simple", "look_at_obj_in_light", "pick_two_obj_and_place"
CLEAN, HEAT, COOL = "pick_clean_then_place_in_recep", "pick_heat_then_place_in_recep", "pick_cool_then_place_in_recep"
TASK_TYPES = (PICK, LOOK, CLEAN, HEAT, COOL, TWO)
PROCESS = {CLEAN: ("clean", "SinkBasin", "Cleanable"), HEAT: ("heat", "Microwave", "Heatable")} | {
    COOL: ("cool", "Fridge", "Coolable")
}
"""Task type -> verb, the receptacle kind that does it, the ability that the object needs."""

Point = tuple[int, int, int, int]
"""A standing point: x, z in quarter metres, rotation in quarter turns, horizon in degrees."""


@dataclass(frozen=True)
class Receptacle:
    """Something that stands still and holds things; `id` has THOR's form (`thor_id`)."""

    id: str
    kind: str
    point: Point


@dataclass(frozen=True)
class Thing:
    """An object and the id of the receptacle that holds it at the start."""

    id: str
    kind: str
    place: str


@dataclass(frozen=True)
class Game:
    """One game: task, room and placement. `parent` is the goal's receptacle kind (the lamp's kind in look tasks)."""

    split: str
    index: int
    type: str
    target: str
    parent: str
    scene: int
    sentence: int
    """Which of the task type's two sentences is used."""
    start: Point
    receptacles: tuple[Receptacle, ...]
    things: tuple[Thing, ...]

    @property
    def folder(self) -> str:
        """Path below the data root, in the real data's form `split/type-object-None-receptacle-scene/trial_n`."""
        return f"{self.split}/{self.type}-{self.target}-None-{self.parent}-{self.scene}/trial_{self.index:05d}"

    @property
    def task(self) -> str:
        """The task sentence, without the final dot."""
        names = {"obj": self.target, "recep": self.parent, "toggle": self.parent, "mrecep": ""}
        template = assets.goals()[self.type]["templates"][self.sentence]
        return template.format(**{key: value.lower() for key, value in names.items()})


def engine_names(game: Game) -> dict[str, str]:
    """Id -> the name that the engine shows, e.g. `Cabinet|+01.00|...` -> `cabinet 2`."""
    ids = [place.id for place in game.receptacles] + [thing.id for thing in game.things]
    symbols = {name: escape(name).lower() for name in ids}
    shown = shown_names(symbols.values())
    return {name: shown[symbol] for name, symbol in symbols.items()}


def thor_id(kind: str, x: float, y: float, z: float) -> str:
    """An id in THOR's form; a basin's starts with what it is part of, from which the engine derives its name."""
    owner = kind.removesuffix("Basin")
    position = "|".join(f"{value:+06.2f}" for value in (x, y, z))
    return f"{owner}|{position}" + (f"|{kind}" if owner != kind else "")


def escape(name: str) -> str:
    """A THOR id as a PDDL symbol."""
    for sign, word in (("-", "_minus_"), ("|", "_bar_"), ("+", "_plus_"), (".", "_dot_"), (",", "_comma_")):
        name = name.replace(sign, word)
    return name


def walkthrough(game: Game) -> list[str] | None:
    """The shortest careful plan with full knowledge of the placement, or None when the goal cannot be reached."""
    names = engine_names(game)
    by_id = {place.id: place for place in game.receptacles}
    by_kind: dict[str, Receptacle] = {}
    for place in game.receptacles:
        by_kind.setdefault(place.kind, place)
    plan: list[str] = []
    opened: set[str] = set()
    here = [game.start]

    def reach(place: Receptacle, *, inside: bool = True) -> None:
        if place.point != here[0]:
            plan.append(f"go to {names[place.id]}")
            here[0] = place.point
        if inside and place.kind in assets.openable_kinds() and place.id not in opened:
            plan.append(f"open {names[place.id]}")
            opened.add(place.id)

    targets = [thing for thing in game.things if thing.kind == game.target]
    if game.type == LOOK:
        lamps = [thing for thing in game.things if thing.kind == game.parent]
        if not targets or not lamps:
            return None
        reach(by_id[targets[0].place])
        plan.append(f"take {names[targets[0].id]} from {names[targets[0].place]}")
        reach(by_id[lamps[0].place], inside=False)
        return [*plan, f"use {names[lamps[0].id]}"]
    needed = 2 if game.type == TWO else 1
    goal = by_kind.get(game.parent)
    if len(targets) < needed or goal is None or game.target not in assets.holds(game.parent):
        return None
    for thing in targets[:needed]:
        reach(by_id[thing.place])
        plan.append(f"take {names[thing.id]} from {names[thing.place]}")
        if game.type in PROCESS:
            verb, kind, ability = PROCESS[game.type]
            if kind not in by_kind or game.target not in assets.can(ability):
                return None
            reach(by_kind[kind], inside=False)
            plan.append(f"{verb} {names[thing.id]} with {names[by_kind[kind].id]}")
        reach(goal)
        plan.append(f"move {names[thing.id]} to {names[goal.id]}")
    return plan
