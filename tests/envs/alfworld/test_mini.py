"""Mini ALFWorld: the same seed gives the same bytes, every game can be won, rooms of unseen games are new."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from envs.alfworld.data import SPLITS, find_tasks
from envs.alfworld.engine import Engine
from envs.alfworld.game import Games
from envs.alfworld.mini import conventions, floorplans, generate
from envs.alfworld.mini.check import plays
from envs.alfworld.mini.game import CLEAN, LOOK, TASK_TYPES, TWO, walkthrough
from envs.alfworld.mini.pddl import files
from envs.base import EnvDataError

SMALL = {"train": 12, "seen": 6, "unseen": 6}
DIGESTS = {
    "conventions": "f8f657c0a45445ee6f5d68629105665d72ca385d600386a8aeeea96d8356f77a",
    "floorplans": "accb7c3f0470c3b14abfbaabae6442e6cc65967e06a75bd16b976dd1e40cc959",
}


@pytest.mark.parametrize("variant", DIGESTS)
def test_a_seed_gives_the_same_bytes_everywhere(tmp_path, variant):
    """When this fails on purpose, raise `GENERATION`, so that users' older games are replaced."""
    assert generate(tmp_path, 0, variant=variant, **SMALL)["digest"] == DIGESTS[variant]


def test_another_seed_gives_other_games(tmp_path):
    assert generate(tmp_path, 1, variant="conventions", **SMALL)["digest"] != DIGESTS["conventions"]


def test_the_summary_counts_what_the_loader_finds(tmp_path):
    summary = generate(tmp_path, **SMALL)
    found = {split: find_tasks(tmp_path, split) for split in SPLITS}
    assert summary["games"] == {split: len(tasks) for split, tasks in found.items()}
    assert summary["types"] == {split: Counter(task.type for task in tasks) for split, tasks in found.items()}
    assert set(summary["types"]["valid_unseen"]) == set(TASK_TYPES)


def test_asking_again_writes_nothing_and_other_settings_replace_the_games(tmp_path):
    first = generate(tmp_path, variant="conventions", **SMALL)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert generate(tmp_path, variant="conventions", **SMALL) == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert generate(tmp_path, variant="conventions", **SMALL | {"train": 3})["games"]["train"] == 3
    assert len(find_tasks(tmp_path, "train")) == 3


def test_data_of_others_is_never_replaced(tmp_path):
    precious = tmp_path / "json_2.1.1" / "train" / "game.tw-pddl"
    precious.parent.mkdir(parents=True)
    precious.write_text("downloaded")
    with pytest.raises(EnvDataError, match=r"choose another data\.root"):
        generate(tmp_path, **SMALL)
    assert precious.read_text() == "downloaded"


def test_a_broken_off_run_leaves_no_data_and_the_next_one_completes_it(tmp_path):
    with pytest.raises(TypeError):
        generate(tmp_path, variant="floorplans", follow=0.5, **SMALL)
    (tmp_path / ".json_2.1.1.part" / "train").mkdir(parents=True)
    (tmp_path / ".json_2.1.1.part" / "train" / "half").write_text("x")
    assert not (tmp_path / "json_2.1.1").exists()
    generate(tmp_path, **SMALL)
    assert not list(tmp_path.rglob("half"))


def test_an_unknown_variant_is_refused(tmp_path):
    with pytest.raises(ValueError, match="conventions"):
        generate(tmp_path, variant="castle")


@pytest.mark.parametrize("variant", [conventions, floorplans])
def test_unseen_rooms_occur_in_no_other_split(variant):
    scenes = {split: {game.scene for game in variant.games(3, split, 120)} for split in SPLITS}
    assert not scenes["valid_unseen"] & (scenes["train"] | scenes["valid_seen"])


def test_games_of_all_six_types_are_won_by_their_walkthrough_on_the_engine(tmp_path):
    assert generate(tmp_path, 5, train=6, seen=0, unseen=0, check=-1)["checked"] == 6
    assert {task.type for task in find_tasks(tmp_path, "train")} == set(TASK_TYPES)


def test_the_check_finds_a_walkthrough_that_does_not_win(tmp_path):
    game = next(conventions.games(0, "train", 1))
    texts = files(game)
    path = tmp_path / "pick_and_place_simple-a-b-c-1" / "trial" / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    for plan, words in ((["look"], "does not win"), (["fly"], "refuses 'fly'")):
        path.write_text(json.dumps(json.loads(texts["game.tw-pddl"]) | {"walkthrough": plan}))
        with pytest.raises(ValueError, match=words):
            plays(path)


@pytest.mark.parametrize("variant", [conventions, floorplans])
def test_no_game_is_won_before_it_starts(variant):
    """Placement alone tells: nothing wanted lies at its goal, unless it must be treated first."""
    for game in variant.games(11, "train", 300):
        kinds = {place.id: place.kind for place in game.receptacles}
        at_goal = [thing for thing in game.things if thing.kind == game.target and kinds[thing.place] == game.parent]
        assert not at_goal or game.type not in ("pick_and_place_simple", TWO)
        assert len(walkthrough(game)) >= (3 if game.type == LOOK else 4)


def test_a_goal_out_of_reach_has_no_walkthrough_and_is_not_written():
    game = next(game for game in floorplans.games(0, "train", 6) if game.type == CLEAN)
    without_sink = replace(game, receptacles=tuple(r for r in game.receptacles if r.kind != "SinkBasin"))
    without_target = replace(game, things=tuple(thing for thing in game.things if thing.kind != game.target))
    for broken in (without_sink, without_target, replace(game, parent="Toaster")):
        assert walkthrough(broken) is None
        with pytest.raises(ValueError, match="cannot be solved"):
            files(broken)


def test_a_floor_plan_is_the_same_room_in_every_game_and_some_of_its_places_share_a_standing_point():
    games = list(floorplans.games(0, "train", 200)) + list(floorplans.games(1, "valid_seen", 200))
    rooms = {game.scene: game.receptacles for game in games}
    assert all(rooms[game.scene] == game.receptacles for game in games)
    shared = [game for game in games if len({r.point for r in game.receptacles}) < len(game.receptacles)]
    assert len(shared) > 100
    assert all(game.start not in {r.point for r in game.receptacles} for game in games)


def test_conventions_give_each_object_four_places_and_each_style_its_own():
    homes = conventions.table(0)
    assert len(homes) == 80
    for kind in conventions.OBJECTS:
        assert len({homes[marker, kind] for marker in conventions.MARKERS}) == 4
    assert conventions.table(1) != homes


def test_ninety_five_of_a_hundred_targets_are_where_the_style_keeps_them():
    homes = conventions.table(0)
    followed = []
    for game in conventions.games(0, "train", 3000):
        kinds = {place.id: place.kind for place in game.receptacles}
        (marker,) = set(conventions.MARKERS) & set(kinds.values())
        (target,) = (thing for thing in game.things if thing.kind == game.target)
        followed.append(kinds[target.place] == homes[marker, target.kind])
    assert 0.94 < sum(followed) / len(followed) < 0.96  # three standard deviations are 0.012


def asked(split, number):
    """The (marker, target) pair of each game: the convention that one must know there."""
    for game in conventions.games(0, split, number):
        (marker,) = {place.kind for place in game.receptacles} & set(conventions.MARKERS)
        yield marker, game.target


def test_training_meets_every_convention_several_times():
    met = Counter(asked("train", 480))
    assert len(met) == 80
    assert min(met.values()) >= 4


def test_the_held_out_layouts_are_two_of_each_style():
    known, held = conventions.layouts(0)
    assert not set(known) & set(held)
    assert Counter(layout.marker for layout in held) == dict.fromkeys(conventions.MARKERS, 2)
    assert Counter(layout.marker for layout in known) == dict.fromkeys(conventions.MARKERS, 4)


def test_a_small_kitchen_shows_nine_receptacles_and_few_things(cache, tmp_path):
    generate(tmp_path, variant="conventions", train=1, seen=0, unseen=0)
    (task,) = find_tasks(tmp_path, "train")
    engine = Engine()
    turn = engine.start(Games(cache).get(task.data["game"]))
    engine.close()
    room = turn.feedback.split("you see ")[1].split(".")[0]
    assert room.count(" 1") == 9
    assert len(room.split(",")) == 9
    assert sum(command.startswith("go to ") for command in turn.commands) == 9
