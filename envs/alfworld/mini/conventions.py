"""Small kitchens in which experience is worth remembering: a latent house style decides where things are kept.

Every kitchen lacks one of six pieces of furniture, has the three appliances, and shows one marker receptacle. The
marker tells the house style; a table (style x object kind -> usual place, drawn from the seed) tells where each kind is
kept, and nearly always it is kept there. The table gives one object kind four different places in the four styles, so
that the kind alone tells little, while a memory from a room of the same style tells all.
Invariant: held-out layouts (style x missing furniture) never occur outside `valid_unseen`; yet each of their
conventions can be met in training, because a style's other layouts have the place.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envs.alfworld.mini import assets
from envs.alfworld.mini.game import CLEAN, COOL, HEAT, PICK, PROCESS, Game, Receptacle, Thing, thor_id

FURNITURE = ("Cabinet", "CounterTop", "DiningTable", "Drawer", "Shelf", "SideTable")
APPLIANCES = ("Fridge", "Microwave", "SinkBasin")
MARKERS = ("CoffeeMachine", "GarbageCan", "StoveBurner", "Toaster")
PLACES = FURNITURE + APPLIANCES
OBJECTS = (
    *("Apple", "Bowl", "Bread", "Cup", "DishSponge", "Egg", "Fork", "Kettle", "Ladle", "Lettuce"),
    *("Mug", "Pan", "Plate", "Pot", "Potato", "SoapBottle", "Spatula", "Spoon", "Tomato", "WineBottle"),
)
TYPES = (PICK, CLEAN, HEAT, COOL)
HELD_OUT_PER_STYLE = 2
_FIRST_SCENE = 501

Table = Mapping[tuple[str, str], str]
"""(marker, object kind) -> the receptacle kind where houses with this marker keep it."""


@dataclass(frozen=True)
class Layout:
    """One kitchen: its marker and the furniture that it lacks."""

    marker: str
    missing: str

    @property
    def kinds(self) -> tuple[str, ...]:
        """The receptacle kinds of the room, one instance each, where things can be kept (the marker is extra)."""
        return tuple(kind for kind in PLACES if kind != self.missing)

    @property
    def scene(self) -> int:
        """A scene number of its own for each layout."""
        return _FIRST_SCENE + MARKERS.index(self.marker) * len(FURNITURE) + FURNITURE.index(self.missing)


def table(seed: int) -> Table:
    """The conventions of a seed: every object kind has four different places in the four styles."""
    rng = random.Random(f"{seed}/conventions")
    return {
        (marker, kind): place
        for kind in OBJECTS
        for marker, place in zip(MARKERS, rng.sample(PLACES, len(MARKERS)), strict=True)
    }


def layouts(seed: int) -> tuple[list[Layout], list[Layout]]:
    """(layouts of train and valid_seen, held-out layouts), disjoint; the same number of each per style."""
    rng = random.Random(f"{seed}/layouts")
    known, held = [], []
    for marker in MARKERS:
        missing = rng.sample(FURNITURE, len(FURNITURE))
        held += [Layout(marker, kind) for kind in missing[:HELD_OUT_PER_STYLE]]
        known += [Layout(marker, kind) for kind in missing[HELD_OUT_PER_STYLE:]]
    return known, held


def games(seed: int, split: str, number: int, *, follow: float = 0.95, distractors: int = 3) -> Iterator[Game]:
    """`number` games of a split; task types in turn, each asking for all (marker, object kind) pairs evenly.

    `follow` is the share of things that are where the table says; `distractors` is how many other things lie about.
    """
    homes = table(seed)
    known, held = layouts(seed)
    asked = {task_type: _asked(task_type, random.Random(f"{seed}/{split}/{task_type}")) for task_type in TYPES}
    for index in range(number):
        rng = random.Random(f"{seed}/{split}/{index}")
        task_type = TYPES[index % len(TYPES)]
        marker, target = next(asked[task_type])
        layout = rng.choice(
            [
                layout
                for layout in (held if split == "valid_unseen" else known)
                if layout.marker == marker and homes[marker, target] in layout.kinds
            ]
        )
        others = [kind for kind in OBJECTS if kind != target and homes[marker, kind] in layout.kinds]
        placed = {
            kind: _place(homes[marker, kind], layout, follow, rng)
            for kind in (target, *rng.sample(others, distractors))
        }
        taken = (placed[target], PROCESS[task_type][1] if task_type in PROCESS else "")
        parent = rng.choice([kind for kind in layout.kinds if kind not in taken and target in assets.holds(kind)])
        room, things = _room(layout, placed)
        yield Game(split, index, task_type, target, parent, layout.scene, rng.randrange(2), (0, 0, 0, 30), room, things)


def _types(kind: str) -> tuple[str, ...]:
    """The task types that can ask for an object kind."""
    return tuple(task for task in TYPES if task not in PROCESS or kind in assets.can(PROCESS[task][2]))


def _asked(task_type: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Endless (marker, object kind) pairs of a task type; kinds that few types can ask for come more often."""
    kinds = [kind for kind in OBJECTS if task_type in _types(kind)]
    pairs = [(marker, kind) for marker in MARKERS for kind in kinds for _ in range(len(TYPES) // len(_types(kind)))]
    while True:
        yield from rng.sample(pairs, len(pairs))


def _place(home: str, layout: Layout, follow: float, rng: random.Random) -> str:
    """The usual place with probability `follow`, else any other of the room."""
    if rng.random() < follow:
        return home
    return rng.choice([kind for kind in layout.kinds if kind != home])


def _room(layout: Layout, placed: Mapping[str, str]) -> tuple[tuple[Receptacle, ...], tuple[Thing, ...]]:
    """The receptacles, each at a point of its own, and the things at their places."""
    kinds = sorted((*layout.kinds, layout.marker))
    ids = {kind: thor_id(kind, x, 0.9, 1.0) for x, kind in enumerate(kinds)}
    room = tuple(Receptacle(ids[kind], kind, (4 * x, 2, 0, 30)) for x, kind in enumerate(kinds))
    things = tuple(Thing(thor_id(kind, 0.0, 1.0, 1.0), kind, ids[place]) for kind, place in sorted(placed.items()))
    return room, things
