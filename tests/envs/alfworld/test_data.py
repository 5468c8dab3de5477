"""Which files count as games, in which order, and what is said when there are none."""

import json

import pytest

from envs.alfworld.data import SPLITS, TASK_TYPES, find_tasks, split_folder
from envs.base import EnvDataError

PICK, COOL = "pick_and_place_simple", "pick_cool_then_place_in_recep"


def put(folder, game='{"pddl_problem": "...", "solvable": true, "walkthrough": []}', traj="{}"):
    """A game folder; None leaves a file out."""
    folder.mkdir(parents=True)
    for name, text in (("game.tw-pddl", game), ("traj_data.json", traj)):
        if text is not None:
            (folder / name).write_text(text)


def found(root, split="train"):
    return [task.id for task in find_tasks(root, split)]


def test_games_are_sorted_by_path_and_typed_by_folder(tmp_path):
    root = tmp_path / "pick_two_obj_and_place-looks-like-a-type"  # only the game's own folder says its type
    for name in (
        f"{COOL}-Mug-None-Shelf-2/trial_9",
        f"{COOL}-Mug-None-Shelf-2/trial_10",
        f"{PICK}-Mug-None-Shelf-10/t",
    ):
        put(root / "train" / name)
    tasks = find_tasks(root, "train")
    assert [(task.type, task.id) for task in tasks] == [
        (PICK, f"{PICK}-Mug-None-Shelf-10/t/game.tw-pddl"),
        (COOL, f"{COOL}-Mug-None-Shelf-2/trial_10/game.tw-pddl"),
        (COOL, f"{COOL}-Mug-None-Shelf-2/trial_9/game.tw-pddl"),
    ]
    assert tasks[0].data == {"game": str(root / "train" / tasks[0].id)}
    assert {(task.env, task.split) for task in tasks} == {("alfworld", "train")}


def test_only_complete_solvable_games_of_known_types_count(tmp_path):
    train = tmp_path / "train"
    put(train / f"{PICK}-Mug-None-Shelf-1/good")
    put(train / f"{PICK}-Mug-None-Shelf-1/no_game", game=None)
    put(train / f"{PICK}-Mug-None-Shelf-1/no_trajectory", traj=None)
    put(train / f"{PICK}-Mug-None-Shelf-1/unsolvable", game='{"solvable": false}')
    put(train / f"{PICK}-Mug-None-Shelf-1/unchecked", game='{"walkthrough": []}')
    put(train / f"{PICK}-MugSliced-None-Shelf-1/trial")
    put(train / "pick_and_place_with_movable_recep-Mug-Bowl-Shelf-1/trial")
    put(train / "wash_the_dog-Mug-None-Shelf-1/trial")
    assert found(tmp_path) == [f"{PICK}-Mug-None-Shelf-1/good/game.tw-pddl"]


def test_words_in_the_path_of_the_data_do_not_matter(tmp_path):
    put(tmp_path / "movable_Sliced" / "train" / f"{PICK}-Mug-None-Shelf-1/t")
    assert len(found(tmp_path / "movable_Sliced")) == 1


def test_the_flag_is_found_wherever_it_stands(tmp_path):
    text = "(the problem) " * 10_000
    trap = json.dumps('"solvable": false')
    folder = tmp_path / "train" / f"{PICK}-Mug-None-Shelf-1"
    put(folder / "first", game=f'{{"solvable": true, "grammar": {trap}, "pddl_problem": "{text}"}}')
    put(folder / "last", game=f'{{"pddl_problem": "{text}", "grammar": {trap}, "solvable":true}}')
    put(folder / "not", game=f'{{"solvable" : false, "pddl_problem": "{text}"}}\n')
    assert found(tmp_path) == [f"{PICK}-Mug-None-Shelf-1/{trial}/game.tw-pddl" for trial in ("first", "last")]


@pytest.mark.parametrize("text", ["", '{"pddl_domain": "(define', '{"solvable": true, "pddl_problem": "(define'])
def test_a_cut_off_file_is_named(tmp_path, text):
    put(tmp_path / "train" / f"{PICK}-Mug-None-Shelf-1/broken", game=text)
    with pytest.raises(EnvDataError, match=r"broken/game\.tw-pddl is cut off"):
        find_tasks(tmp_path, "train")


def test_the_split_is_found_below_the_newest_release_that_has_it(tmp_path):
    put(tmp_path / "json_2.1.1" / "train" / f"{PICK}-Mug-None-Shelf-1/old")
    put(tmp_path / "json_2.1.1" / "valid_seen" / f"{PICK}-Mug-None-Shelf-1/old")
    put(tmp_path / "json_2.1.3" / "train" / f"{PICK}-Mug-None-Shelf-1/new")
    assert split_folder(tmp_path, "train") == tmp_path / "json_2.1.3" / "train"
    assert split_folder(tmp_path, "valid_seen") == tmp_path / "json_2.1.1" / "valid_seen"
    assert split_folder(tmp_path / "json_2.1.1", "train") == tmp_path / "json_2.1.1" / "train"


def test_without_a_folder_the_environment_variable_counts(tmp_path, monkeypatch):
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    put(tmp_path / "json_2.1.1" / "valid_unseen" / f"{PICK}-Mug-None-Shelf-1/t")
    assert len(found(None, "valid_unseen")) == 1


@pytest.mark.parametrize("split", SPLITS)
def test_no_games_names_the_download_and_the_variable(tmp_path, split):
    (tmp_path / "train").mkdir()
    with pytest.raises(EnvDataError, match=f"no ALFWorld games of split '{split}'.*alfworld-download.*ALFWORLD_DATA"):
        find_tasks(tmp_path, split)


def test_an_unknown_split_is_refused(tmp_path):
    with pytest.raises(EnvDataError, match="no split 'test'; choose one of train, valid_seen, valid_unseen"):
        find_tasks(tmp_path, "test")


def test_the_six_task_types_are_those_of_alfworld():
    assert len(TASK_TYPES) == 6
