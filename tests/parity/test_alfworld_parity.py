"""Our engine beside the stock one (TextWorld's PddlEnv under AlfredTWEnv's wrappers): every text, command, score, end.

The stock environment costs 0.05–0.2 CPU-seconds a step: the games are the smallest of each task type, the walks short.
"""

import dataclasses
import json
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.alfworld.compiled import _query
from envs.alfworld.data import SPLITS, TASK_TYPES, find_tasks
from envs.alfworld.env import AlfworldEnv
from envs.alfworld.mini import generate
from envs.alfworld.names import shown_names
from envs.alfworld.state import Facts, query_from_data

MISTAKES = ("dance", "go to mars 1", "put mug 1 in/on shelf 1", "Look", "take  mug 1")
STAYING = ("look", "inventory", "help", "examine", "open", "use")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("floorplans")
    generate(root, seed=1, train=36, seen=6, unseen=6)
    return root


@pytest.fixture(scope="module")
def tasks(data, tmp_path_factory):
    """A task of each type: the smallest one in a floor plan, or one in a small kitchen where these are cheaper."""
    root = tmp_path_factory.mktemp("conventions")
    generate(root, seed=1, variant="conventions", train=4, seen=1, unseen=1)
    by_size = sorted(find_tasks(data, "train"), key=lambda task: -Path(task.data["game"]).stat().st_size)
    smallest = {task.type: task for task in by_size}
    return smallest | {task.type: task for task in find_tasks(root, "train") if "_heat_" not in task.type}


@pytest.fixture(scope="module")
def alfworld(tmp_path_factory):
    """The stock package; its import would create ~/.cache/alfworld and set ALFWORLD_DATA for good."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALFWORLD_DATA", str(tmp_path_factory.mktemp("stock")))
        from alfworld.agents.environment import alfred_tw_env

        yield alfred_tw_env


@pytest.fixture(scope="module")
def stock(alfworld):
    """What AlfredTWEnv.init_env builds for one game at a time."""
    import textworld
    from textworld.gym.envs.textworld_batch import _make_env

    infos = textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile"])
    return _make_env(infos, 50, [alfworld.AlfredDemangler(shuffle=False), alfworld.AlfredInfos])


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    env = AlfworldEnv(cache=str(tmp_path_factory.mktemp("cache")))
    yield env
    env.close()


def play_both(stock, ours, task, rng):
    """Walk to the goal with detours and mistakes, and a step beyond; compare after every one."""
    path = task.data["game"]
    stock.load(path)
    text, infos = stock.reset()
    seen = ours.reset(task)
    assert seen.text == text
    plan = [*json.loads(Path(path).read_text())["walkthrough"], "look"]
    while plan:
        here = [command for command in infos["admissible_commands"] if command.startswith(STAYING)]
        draw = rng.random()
        command = rng.choice(here) if draw < 0.25 else rng.choice(MISTAKES) if draw < 0.4 else plan.pop(0)
        accepted = command in infos["admissible_commands"]
        text, score, done, infos = stock.step(command)
        seen = ours.step(command)
        commands = [known for known in infos["admissible_commands"] if known != "help"]
        assert (seen.text, list(seen.admissible)) == (text, commands), command
        assert (seen.score, seen.won, seen.done, seen.accepted) == (score, infos["won"], done, accepted), command
    assert seen.won


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_every_word_is_the_same(stock, ours, tasks, kind):
    play_both(stock, ours, tasks[kind], random.Random(kind))


def test_other_grammars_are_the_same(stock, ours, tasks, tmp_path):
    """The old put command, a quoted task sentence, and a command that changes with the state."""
    task = tasks["pick_and_place_simple"]
    game = json.loads(Path(task.data["game"]).read_text())
    game["grammar"] = (
        game["grammar"]
        .replace('"move {o} to {r}"', '"put {o} in/on {r}"')
        .replace("You move the {o.name} to", "You put the {o.name} in/on")
        .replace('template :: "inventory"', 'template :: "inventory [{o.name | holds(a:agent, o:object)}]"')
        .replace("Your task is to: ", 'Your task is to: say \\"please\\", then ')
    )
    moves = (command.removeprefix("move ").split(" to ") for command in game["walkthrough"] if "move " in command)
    put = [f"put {thing} in/on {place}" for thing, place in moves]
    game["walkthrough"] = [command for command in game["walkthrough"] if "move " not in command] + put
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps(game))
    play_both(stock, ours, dataclasses.replace(task, data={"game": str(path)}), random.Random(7))


@pytest.mark.parametrize("split", SPLITS)
def test_the_same_games_are_found(alfworld, data, split, capsys):
    names = {"train": "train", "valid_seen": "eval_in_distribution", "valid_unseen": "eval_out_of_distribution"}
    folder = str(data / "json_2.1.1" / split)
    config = {
        "env": {"goal_desc_human_anns_prob": 0, "task_types": [1, 2, 3, 4, 5, 6]},
        "dataset": {
            **dict.fromkeys(("data_path", "eval_id_data_path", "eval_ood_data_path"), folder),
            "num_train_games": -1,
            "num_eval_games": -1,
        },
    }
    stock_games = alfworld.AlfredTWEnv(config, names[split]).game_files
    assert sorted(stock_games) == [task.data["game"] for task in find_tasks(data, split)]


kinds = st.sampled_from(["sink", "bathtub", "cabinet", "mug", "knife"])
places = st.lists(st.sampled_from(["minus_01", "plus_02_dot_50", "basin", "x", "bar_7"]), max_size=3)
ids = st.builds(lambda kind, rest: "_bar_".join([kind, *rest]), kinds, places)


@given(st.sets(ids, max_size=12))
def test_things_get_the_same_names(alfworld, found):
    infos = {name: SimpleNamespace(id=name) for name in found}
    demangler = alfworld.Demangler(game_infos=infos)
    assert shown_names(found) == {name: demangler.demangle_alfred_name(name) for name in found}


THINGS = [("a", "object"), ("b", "object"), ("c", "box"), ("d", "box"), ("r", "place")]
HOLES = [("o", "object"), ("p", "object"), ("n", "object"), ("x", "box")]
pairs = st.tuples(st.sampled_from(THINGS), st.sampled_from(THINGS))
predicates = st.tuples(st.sampled_from(HOLES), st.sampled_from(HOLES))


@settings(max_examples=60, deadline=None)
@given(st.sets(pairs, min_size=6, max_size=18), st.lists(predicates, min_size=1, max_size=3), st.booleans())
def test_queries_match_in_the_same_order(stock, facts, query, bound):
    from textworld.logic import GameLogic, Placeholder, Proposition, Rule, State, Type, Variable

    logic = GameLogic()
    for name, parents in (("object", []), ("box", ["object"]), ("place", ["object"])):
        logic.types.add(Type(name, parents))
    state = State(logic, [Proposition("on", [Variable(*one), Variable(*two)]) for one, two in facts])
    text = " & ".join(f"on({one[0]}: {one[1]}, {two[0]}: {two[1]})" for one, two in query)
    given_bindings = {("o", "object"): ("a", "object")} if bound else {}
    expected = state.all_assignments(
        Rule.parse_conjunctive_query(text),
        {Placeholder(*hole): Variable(*thing) for hole, thing in given_bindings.items()},
    )

    ours = {}
    for one, two in facts:
        ours.setdefault(("on", (one[1], two[1])), set()).add((one, two))
    matches = Facts(ours).matches(query_from_data(_query(text, logic.types)), given_bindings)
    assert list(matches) == [
        {(hole.name, hole.type): (thing.name, thing.type) for hole, thing in found.items()} for found in expected
    ]
