"""What the memory baselines add: worked examples, routines, banks that a model manages, reflections on one task."""

import asyncio
import json
import random

import pytest
from memory_parts import (
    EMBEDDER,
    Counting,
    PlainPrompts,
    add,
    entry,
    memory_config,
    open_bank,
    query,
    record,
    trajectory,
)
from memory_parts import Writer as Answers

from mh_train.agent.speaker import EngineSpeaker
from mh_train.agent.types import Step
from mh_train.config import compose
from mh_train.config.schema import DistillConfig, Manager, Writer
from mh_train.engine.scripted import ScriptedEngine
from mh_train.memory.curate import curate
from mh_train.memory.distill import choose
from mh_train.memory.exemplars import MOST_STEPS, example, exemplars, workflow
from mh_train.memory.judge import EngineJudge
from mh_train.memory.managed import manage, nearest, parse_operations
from mh_train.memory.reader import BankReader


def episode(*actions, name="e", inadmissible=()):
    made = trajectory(name)
    made.steps = [
        Step(f"you see shelf {i}", (), action, inadmissible=action in inadmissible) for i, action in enumerate(actions)
    ]
    return made


def test_an_example_tells_observations_and_actions_and_stays_short():
    told = example(episode("go to shelf 1", "", "take mug 2 from shelf 1"))
    assert (
        told
        == "task put bread in fridge | you see shelf 0 -> go to shelf 1 | you see shelf 2 -> take mug 2 from shelf 1"
    )
    assert example(episode(*["look"] * 100)).count(" -> ") == MOST_STEPS


def test_a_workflow_keeps_the_routine_and_drops_what_names_instances():
    told = workflow(
        episode(
            "go to shelf 1", "go to shelf 2", "open safe 9", "take mug 2 from shelf 12", inadmissible=("open safe 9",)
        )
    )
    assert told == "1. go to shelf; 2. take mug from shelf"
    assert workflow(episode("search[red shoes]", "click[B09XYZ123A]")) == "1. search[{query}]; 2. click[{id}]"


def test_exemplars_are_records_of_their_episodes():
    found = exemplars([episode("look", name="a"), episode("", name="b")], Writer.exemplar, 3, "run")
    assert [i for i, _ in found] == [0]
    assert found[0][1].provenance[0].trajectory == "a" and found[0][1].created == 3


@pytest.mark.parametrize("only, expected", [("", ["w", "l"]), ("success", ["w"]), ("failure", ["l"])])
def test_distillation_can_be_limited_to_one_outcome(only, expected):
    both = [trajectory("w"), trajectory("l", won=False)]
    config = DistillConfig(fraction=1.0, only=only)
    assert [t.id for t in choose(both, {"w": True, "l": False}, config, 0, 0)] == expected


def test_workflows_enter_the_bank_without_a_model(tmp_path):
    bank = open_bank(tmp_path)
    config = memory_config(writer=Writer.workflow, distill=DistillConfig(fraction=1.0, only="success"))
    silent = Answers(lambda turn: pytest.fail("nobody is asked"))
    played = [trajectory("w"), trajectory("l", won=False)]
    asyncio.run(curate(bank, played, silent, Counting(), PlainPrompts(), config, 0, 0))
    assert [r.content for r in bank.records.values()] == ["1. look"]


def decide(bank, records, manager, *operations):
    """The bank after a model answered these operations to every question; the counts."""
    answer = json.dumps({"operations": list(operations)}) if operations != ("noise",) else "I would keep it."
    engine = ScriptedEngine(lambda prompt, rng: answer)
    judge = EngineJudge(EngineSpeaker(engine), engine)
    new, counts = asyncio.run(manage(bank, records, manager, judge, 0, 1))
    return new, {name.removeprefix("memory/"): value for name, value in counts.items() if value}


KNOWN = record("mugs are on the shelf")
FRESH = record("mugs are in the cabinet", task="t1")


@pytest.fixture
def bank(tmp_path):
    made = open_bank(tmp_path)
    add(made, KNOWN, record("buy the cheapest", env="webshop"))
    return made


def test_the_model_sees_live_records_of_the_same_environment(bank):
    assert [r.id for r in nearest(bank, FRESH)] == [KNOWN.id]


def test_add_update_and_delete(bank):
    new, counts = decide(bank, [FRESH], Manager.mem0, {"op": "add"}, {"op": "delete", "id": KNOWN.id})
    assert new == [FRESH.id] and counts == {"added": 1, "managed_removals": 1}
    assert bank.records[KNOWN.id].state == "archived" and bank.records[FRESH.id].state == "active"
    joined = {"op": "update", "id": FRESH.id, "text": "mugs are in cabinet or shelf"}
    assert decide(bank, [record("mugs again", task="t2")], Manager.mem0, joined) == ([], {"managed_edits": 1})
    changed = bank.records[FRESH.id]
    assert changed.content == "mugs are in cabinet or shelf" and "update by the model" in changed.reason
    assert bank.state.vectors[FRESH.id] == pytest.approx(EMBEDDER.encode([changed.key_text()])[0])


def test_insights_gain_and_lose_votes_and_go_when_they_have_none(bank):
    decide(bank, [FRESH], Manager.expel, {"op": "add", "text": "look into cabinets"})
    insight = bank.records[FRESH.id]
    assert (insight.content, insight.quality) == ("look into cabinets", 0.2)
    for op, votes in (("agree", 0.3), ("remove", 0.2), ("remove", 0.1)):
        decide(bank, [record(f"{op} {votes}")], Manager.expel, {"op": op, "id": FRESH.id})
        assert bank.records[FRESH.id].quality == pytest.approx(votes)
    decide(bank, [record("last")], Manager.expel, {"op": "remove", "id": FRESH.id})
    assert bank.records[FRESH.id].state == "archived"


def test_what_cannot_be_read_is_added_and_what_names_nothing_is_ignored(bank):
    assert decide(bank, [FRESH], Manager.mem0, "noise") == ([FRESH.id], {"added": 1, "manage_unparsed": 1})
    ghost = {"op": "delete", "id": "m-none"}
    assert decide(bank, [record("other")], Manager.mem0, ghost) == ([], {"managed_ignored": 1})
    assert decide(bank, [record("nothing new")], Manager.mem0) == ([], {"duplicates": 1})


def test_operations_are_parsed_from_any_text():
    assert parse_operations('Sure: {"operations": [{"op": "add", "id": null}, 3]}') == [{"op": "add", "id": "None"}]
    assert parse_operations("{}") is None and parse_operations('{"operations": 1}') is None
    noise = random.Random(0)
    for _ in range(200):
        parse_operations("".join(noise.choices('{}[]":,operations', k=40)))


def test_a_managed_bank_is_curated_by_the_policy(tmp_path):
    bank = open_bank(tmp_path)
    answers = {"distill": entry("in a kitchen", "mugs are on the shelf"), "induce": '{"operations": [{"op": "add"}]}'}
    engine = ScriptedEngine(lambda prompt, rng: "")
    speaker = Answers(lambda turn: answers[turn.kind])
    config = memory_config(manager=Manager.mem0, distill=DistillConfig(fraction=1.0))
    metrics = asyncio.run(curate(bank, [trajectory("a")], speaker, engine, PlainPrompts(), config, 0, 0))
    assert [turn.kind for turn in speaker.asked] == ["distill", "induce"] and metrics["memory/added"] == 1.0


def test_reflections_are_read_in_their_own_task_alone(bank):
    add(bank, FRESH, update=1)
    config = memory_config(only_same_task=True)
    reader = BankReader(bank.view(), EMBEDDER, config)
    found = reader.search([query("mugs", task="t1"), query("mugs", task="new")])
    assert [[hit.record_id for hit in hits] for hits in found] == [[FRESH.id], []]


def test_reflexion_shows_the_latest_reflections(tmp_path):
    bank = open_bank(tmp_path)
    attempts = [record(f"reflection {i}", task="t1", update=i) for i in range(5)]
    for i, one in enumerate(attempts):
        add(bank, one, update=i)
    config = compose(["env=toy", "model.path=x", "memory=reflexion"]).memory
    [hits] = BankReader(bank.view(), EMBEDDER, config).search([query("reflection", task="t1")])
    assert [hit.record_id for hit in hits] == [one.id for one in attempts[:1:-1]]
