"""ALFWorld behind the contract: observations, errors that name the file, old data, slots in workers."""

import asyncio
import json

import pytest
from rooms import grammar_of, room, write_room

from envs.alfworld.env import AlfworldEnv
from envs.alfworld.mini.game import LOOK, PICK, TASK_TYPES, walkthrough
from envs.base import EnvDataError, Task
from envs.check import check_env
from envs.pool import EnvPool


@pytest.fixture
def env(cache):
    env = AlfworldEnv(cache=cache)
    yield env
    env.close()


def task(path):
    return Task("t", "alfworld", "train", PICK, {"game": str(path)})


def test_it_keeps_every_rule_of_the_contract_on_all_task_types(tmp_path, cache):
    for kind in TASK_TYPES:
        write_room(tmp_path / "json_2.1.1" / "train", kind)
    options = {"data": str(tmp_path), "cache": cache}
    assert {task.type for task in AlfworldEnv.tasks("train", **options)} == set(TASK_TYPES)
    report = check_env("alfworld", options, n_tasks=6)
    assert report.ok, str(report)


def test_the_first_observation_shows_the_room_and_the_goal_apart(tmp_path, env):
    seen = env.reset(task(write_room(tmp_path, PICK)))
    assert seen.goal == "put a mug in countertop"
    assert seen.text.startswith("-= Welcome to TextWorld, ALFRED! =-\n\n")
    assert seen.text.endswith("\n\nYour task is to: put a mug in countertop.")
    assert seen.shown.startswith("You are in the middle of a room.")
    assert seen.shown.endswith("a sidetable 1, and a sinkbasin 1.")
    assert (seen.score, seen.won, seen.done, seen.accepted) == (0.0, False, False, True)


def test_help_is_accepted_but_not_listed(tmp_path, env):
    seen = env.reset(task(write_room(tmp_path, PICK)))
    assert "help" not in seen.admissible
    assert list(seen.admissible) == sorted(seen.admissible)
    said = env.step("help")
    assert said.accepted
    assert "Available commands:" in said.text
    assert not env.step("HELP").accepted


def test_won_ends_the_episode_and_nothing_else_does(tmp_path, env):
    env.reset(task(write_room(tmp_path, LOOK)))
    for command in walkthrough(room(LOOK)):
        seen = env.step(command)
        assert (seen.done, seen.score) == (seen.won, float(seen.won))
    assert seen.won
    env.reset(task(write_room(tmp_path, PICK)))
    assert not any(env.step("look").done for _ in range(60))


def test_old_data_says_put_instead_of_move(tmp_path, env):
    path = write_room(tmp_path, PICK)
    grammar = grammar_of(path).replace('"move {o} to {r}"', '"put {o} in/on {r}"')
    grammar = grammar.replace("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}.")
    seen = env.reset(task(write_room(tmp_path, PICK, trial="old", grammar=grammar)))
    for command in walkthrough(room(PICK))[:-1]:
        seen = env.step(command)
    assert "put mug 2 in/on countertop 1" in seen.admissible
    assert not env.step("move mug 2 to countertop 1").accepted
    seen = env.step("put mug 2 in/on countertop 1")
    assert seen.won
    assert seen.text == "You put the mug 2 in/on the countertop 1."


def test_one_slot_plays_one_game_after_the_other(tmp_path, env):
    first, second = task(write_room(tmp_path, PICK)), task(write_room(tmp_path, LOOK))
    opening = env.reset(first)
    env.step("go to fridge 1")
    assert env.reset(second).goal == "look at mug under the desklamp"
    assert env.reset(first) == opening


def test_a_worker_process_plays_the_same_game(tmp_path, cache, env):
    start, commands = task(write_room(tmp_path, LOOK)), ["look", *walkthrough(room(LOOK))]

    async def play():
        async with EnvPool("alfworld", {"cache": cache}, workers=1, timeout_s=60) as pool:
            slot = pool.slot()
            return [await slot.reset(start), *[await slot.step(command) for command in commands]]

    assert asyncio.run(play()) == [env.reset(start), *[env.step(command) for command in commands]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"grammar": None}, "no text under 'grammar'"),
        ({"pddl_domain": 3}, "no text under 'pddl_domain'"),
        ({"pddl_problem": "(define (problem x) (:domain alfred)"}, "PDDL cannot be translated"),
        ({"pddl_problem": "(define (problem x) (:domain alfred) (:init (inReceptacle mug 1)))"}, "PDDL cannot be"),
        ({"grammar": "action look {"}, "grammar cannot be parsed"),
        ({"grammar": 'grammar :: """{"intro": [{"rhs": "#gone#"}]}""";'}, "grammar .* is broken .*gone"),
        ({"grammar": 'grammar :: """{"intro": [{"rhs": "Hi {x.name}."}]}""";'}, "grammar .* is broken .*'x'"),
        ({"grammar": 'grammar :: """{"intro": [{"rhs": "Hi."}]}""";'}, "grammar .* has no action 'help'"),
    ],
)
def test_a_broken_game_is_one_sentence_that_names_the_file(tmp_path, env, changes, words):
    path = write_room(tmp_path, PICK, **changes)
    with pytest.raises(EnvDataError, match=words) as error:
        env.reset(task(path))
    assert str(path) in str(error.value)
    assert env.reset(task(write_room(tmp_path, LOOK))).goal  # the slot lives on


@pytest.mark.parametrize("text", ['{"pddl_domain": "(def', "[]", b"\xff\xfe"])
def test_a_file_that_is_no_game_is_named(tmp_path, env, text):
    path = tmp_path / "game.tw-pddl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(EnvDataError, match=r"game\.tw-pddl"):
        env.reset(task(path))
    with pytest.raises(EnvDataError, match=r"nowhere\.tw-pddl cannot be read"):
        env.reset(task(tmp_path / "nowhere.tw-pddl"))


def test_a_task_of_another_environment_and_an_unknown_option_are_refused(env):
    with pytest.raises(EnvDataError, match="names no game file"):
        env.reset(Task("t", "toy", "train", "x", json.loads("{}")))
    with pytest.raises(ValueError, match="options data and cache, not dta"):
        AlfworldEnv(dta="x")
