"""A small room that serves all six task types, as game files; the tests of engine and environment play in it."""

import json
from pathlib import Path

from envs.alfworld.mini.game import CLEAN, COOL, HEAT, LOOK, PICK, TWO, Game, Receptacle, Thing, thor_id
from envs.alfworld.mini.pddl import files

PLACES = ("Fridge", "Microwave", "SinkBasin", "CounterTop", "Cabinet", "Cabinet", "SideTable")
THINGS = (("Mug", 4), ("Mug", 6), ("Apple", 3), ("DeskLamp", 6), ("Knife", 3))
TARGETS = {PICK: "Mug", LOOK: "Mug", CLEAN: "Mug", HEAT: "Apple", COOL: "Apple", TWO: "Mug"}


def room(kind: str, sentence: int = 0) -> Game:
    """A game of type `kind`; the second cabinet shares the standing point of the first."""
    places = tuple(
        Receptacle(thor_id(name, index, 0, -1), name, (4 if name == "Cabinet" else index, 0, 0, 30))
        for index, name in enumerate(PLACES)
    )
    things = tuple(
        Thing(thor_id(name, index, 0.9, -2), name, places[place].id) for index, (name, place) in enumerate(THINGS)
    )
    parent = {LOOK: "DeskLamp", TWO: "Cabinet"}.get(kind, "CounterTop")
    return Game("train", 0, kind, TARGETS[kind], parent, 1, sentence, (9, 9, 0, 30), places, things)


def write_room(split_folder: Path, kind: str, trial: str = "trial_0", sentence: int = 0, **changes: object) -> Path:
    """Write a game's folder below `split_folder` and return its game file. `changes` replace keys of game.tw-pddl."""
    game = room(kind, sentence)
    texts = files(game)
    folder = split_folder / Path(game.folder).parent.name / trial
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    path = folder / "game.tw-pddl"
    if changes:
        path.write_text(json.dumps(json.loads(texts["game.tw-pddl"]) | changes), encoding="utf-8")
    return path


def grammar_of(path: Path) -> str:
    """The grammar text in a game file."""
    return json.loads(path.read_text(encoding="utf-8"))["grammar"]
