"""The engine plays whole games, its slots do not see each other, and what it keeps on disk never changes a text."""

import gc
import random
import sys
from pathlib import Path

import pytest
from rooms import grammar_of, room, write_room

from envs.alfworld import compiled, game, library
from envs.alfworld.engine import NOTHING, Engine
from envs.alfworld.game import Games
from envs.alfworld.mini.game import HEAT, LOOK, PICK, TASK_TYPES, TWO, walkthrough


def transcript(engine, start, seed, steps=12):
    """A random walk, as (text, commands, won) from the reset on."""
    rng = random.Random(seed)
    turns = [engine.start(start)]
    for _ in range(steps):
        turns.append(engine.step(rng.choice(turns[-1].commands)))
    return [(turn.feedback, turn.commands, turn.won) for turn in turns]


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_the_walkthrough_wins_and_not_before_its_last_step(tmp_path, cache, kind):
    engine = Engine()
    turns = [engine.start(Games.shared(cache).get(str(write_room(tmp_path, kind))))]
    turns += [engine.step(command) for command in walkthrough(room(kind))]
    assert [turn.won for turn in turns] == [False] * (len(turns) - 1) + [True]
    assert all(turn.accepted for turn in turns)
    assert engine.step("look").won  # the world goes on


def test_the_texts_are_those_of_alfworld(tmp_path, cache):
    engine = Engine()
    opening = engine.start(Games.shared(cache).get(str(write_room(tmp_path, HEAT))))
    assert opening.feedback == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see a "
        "cabinet 2, a cabinet 1, a countertop 1, a fridge 1, a microwave 1, a sidetable 1, and a sinkbasin 1.\n\n"
        "Your task is to: put a hot apple in countertop."
    )
    said = {
        "look": "You are in the middle of a room. Looking quickly around you, you see nothing.",
        "go to countertop 1": "You arrive at countertop 1. On the countertop 1, you see a apple 1, and a knife 1.",
        "take apple 1 from countertop 1": "You pick up the apple 1 from the countertop 1.",
        "inventory": "You are carrying: a apple 1.",
        "go to microwave 1": "You arrive at microwave 1. The microwave 1 is closed.",
        "heat apple 1 with microwave 1": "You heat the apple 1 using the microwave 1.",
        "examine apple 1": "This is a hot apple 1.",
        "go to cabinet 1": "You arrive at cabinet 1. The cabinet 1 is closed.",
        "go to cabinet 2": NOTHING,  # same standing point: you are already there
        "open cabinet 2": "You open the cabinet 2. The cabinet 2 is open. In it, you see a mug 2.",
    }
    assert {command: engine.step(command).feedback for command in said} == said


@pytest.mark.parametrize("command", ["dance", "", "GO TO fridge 1", "go to  fridge 1", "open fridge 1", "take mug 1"])
def test_what_is_not_admissible_is_answered_and_changes_nothing(tmp_path, cache, command):
    start = Games.shared(cache).get(str(write_room(tmp_path, PICK)))
    engine = Engine()
    opening = engine.start(start)
    turn = engine.step(command)
    assert (turn.feedback, turn.accepted, turn.won) == ("Nothing happens.", False, False)
    assert turn.commands == opening.commands
    expected = transcript(Engine(), start, seed=1)
    assert transcript(engine, start, seed=1) == expected


def test_engines_in_one_process_do_not_see_each_other(tmp_path, cache):
    games = [Games.shared(cache).get(str(write_room(tmp_path, kind))) for kind in (PICK, LOOK, TWO)]
    plays = [(games[index % 3], index) for index in range(7)]  # some share a game
    solo = [transcript(Engine(), start, seed) for start, seed in plays]

    engines = [(Engine(), start, random.Random(seed)) for start, seed in plays]
    turns = [[engine.start(start)] for engine, start, _ in engines]
    for _ in range(12):
        for (engine, _, rng), seen in zip(engines, turns, strict=True):
            seen.append(engine.step(rng.choice(seen[-1].commands)))
    assert [[(turn.feedback, turn.commands, turn.won) for turn in seen] for seen in turns] == solo


def test_a_planner_copy_is_used_again_after_close_and_after_collection():
    def copies():
        return sum("libdownward" in line for line in Path("/proc/self/maps").read_text().splitlines())

    engines = [Engine() for _ in range(3)]
    loaded = copies()
    engines[0].close()
    engines[0].close()  # closing twice gives back once
    del engines
    gc.collect()
    again = [Engine() for _ in range(3)]
    assert copies() == loaded
    assert len({id(engine._planner) for engine in again}) == 3


def test_a_planner_copy_holds_no_debug_sections():
    from fast_downward.interface import DOWNWARD_LIB_PATH

    assert len(library._loadable_part(Path(DOWNWARD_LIB_PATH))) < 2**21


def test_compiling_leaves_the_process_as_it_was(tmp_path):
    before = (sys.argv, list(sys.argv), sys.stdout)
    Games(None).get(str(write_room(tmp_path, PICK)))
    assert (sys.argv, list(sys.argv), sys.stdout) == before


def test_from_disk_nothing_is_compiled_again_and_every_text_is_the_same(tmp_path, monkeypatch):
    path, folder = str(write_room(tmp_path, LOOK)), str(tmp_path / "cache")
    fresh = transcript(Engine(), Games(folder).get(path), seed=3, steps=25)
    monkeypatch.setattr(compiled, "translate", None)
    monkeypatch.setattr(compiled, "parse_grammar", None)
    assert transcript(Engine(), Games(folder).get(path), seed=3, steps=25) == fresh


def test_a_damaged_or_unwritable_cache_costs_time_only(tmp_path, cache, caplog):
    path, folder = str(write_room(tmp_path, PICK)), tmp_path / "cache"
    expected = transcript(Engine(), Games.shared(cache).get(path), seed=5)
    Games(str(folder)).get(path)
    entries = sorted(folder.rglob("*.z"))
    assert len(entries) == 2  # the planning task, the grammar
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:-9])
    games = Games(str(folder))
    assert transcript(Engine(), games.get(path), seed=5) == expected
    assert games._disk.failures == 2
    assert "cannot be read" in caplog.text

    in_the_way = tmp_path / "file"
    in_the_way.write_text("no folder")
    games = Games(str(in_the_way))
    assert transcript(Engine(), games.get(path), seed=5) == expected
    assert games._disk.failures > 0


def test_memory_is_bounded_and_a_dropped_game_comes_back_the_same(tmp_path, cache, monkeypatch):
    paths = [str(write_room(tmp_path, kind)) for kind in (PICK, LOOK)]
    games, engine = Games(cache), Engine()
    first = transcript(engine, games.get(paths[0]), seed=2)
    monkeypatch.setattr(game, "KEPT_BYTES", 1)
    games.get(paths[1])
    assert len(games._games) == 1
    assert transcript(engine, games.get(paths[0]), seed=2) == first


def test_a_changed_file_is_read_again(tmp_path, cache):
    path = write_room(tmp_path, PICK)
    before = Engine().start(Games.shared(cache).get(str(path))).feedback
    path.write_text(path.read_text().replace("put a mug in countertop", "bring me a mug"))
    after = Engine().start(Games.shared(cache).get(str(path))).feedback
    assert after == before.replace("put a mug in countertop", "bring me a mug")


@pytest.mark.parametrize(
    "task", ["put a 5.5 cm mug, café style, in the sink's basin", "put one half\\/two halves there"]
)
def test_unusual_task_sentences_are_said_as_written(tmp_path, cache, task):
    path = write_room(tmp_path, PICK)
    grammar = grammar_of(path).replace("put a mug in countertop", task)
    path = write_room(tmp_path, PICK, trial="changed", grammar=grammar)
    said = Engine().start(Games.shared(cache).get(str(path))).feedback
    assert said.endswith(f"Your task is to: {task}.".replace("\\", ""))


def test_stepping_before_a_game_is_started_says_what_to_do():
    with pytest.raises(RuntimeError, match="call start"):
        Engine().step("look")
