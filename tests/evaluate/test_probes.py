"""Probes: what an edit may be, which states give one, how answers are labelled and reported."""

import asyncio

import pytest

from mh_train.agent.types import MemoryHit, Retrieval, Step, Trajectory
from mh_train.engine.scripted import ScriptedEngine
from mh_train.evaluate.edits import Case, dearer, fault, found, moved, restyled
from mh_train.evaluate.probes import SHIPPED, build, label, markdown, read_probes, report, write_probes
from mh_train.evaluate.statistics import EvaluationError
from mh_train.evaluate.teacher import read_edit, teach

KITCHEN = "You see a cabinet 1, a fridge 1, a microwave 1, a shelf 1, a sinkbasin 1, and a toaster 1."
PAGE = "[button] Back to Search [button_]\nKessal Garden Rake\nPrice: $19.99\n[button] Buy Now [button_]"
GOAL = "Find me compact rake for garden, and price lower than 50.00 dollars"


def test_an_edit_changes_one_place_and_keeps_the_format():
    assert fault(KITCHEN, KITCHEN.replace("shelf", "drawer")) == ""
    assert fault("On the shelf 1, you see nothing.", "On the shelf 1, you see a mug 1.") == ""
    assert fault(KITCHEN, KITCHEN.replace(", a shelf 1", "")) == ""
    assert fault(PAGE, PAGE.replace("19.99", "59.99")) == ""
    assert fault("'a' [SEP] 'b'", "'a' [SEP] 'c'") == ""


@pytest.mark.parametrize(
    "before, after, why",
    [
        (KITCHEN, KITCHEN, "nothing changed"),
        (KITCHEN, KITCHEN.replace("cabinet", "drawer").replace("toaster", "sofa"), "more than one fact"),
        (KITCHEN, "The shelf is gone.", "more than one fact"),
        (KITCHEN, KITCHEN.replace("a shelf 1", "no shelf"), "format"),
        (PAGE, PAGE.replace("[button] Buy", "Buy"), "format"),
        ("'a' [SEP] 'b'", "'a' 'b'", "format"),
    ],
)
def test_everything_else_is_a_fault(before, after, why):
    assert why in fault(before, after)


def test_what_a_memory_names_is_moved_away():
    case = Case("put bread in fridge", KITCHEN, "bread was in shelf 1", "", ["bread was in drawer 1", "look around"])
    made = moved(case)
    assert made.state == KITCHEN.replace("shelf", "drawer") and made.flip == "shelf is gone, drawer stands in its place"
    assert moved(Case("put bread on shelf", KITCHEN, case.memory, "", case.others)) is None
    assert moved(Case(case.goal, KITCHEN, case.memory, "", ["bread was in cabinet 1"])) is None
    shop = moved(Case(GOAL, PAGE, "compact is kessal", "", ["compact is mirlow"]))
    assert shop.state == PAGE.replace("Kessal", "Mirlow")


def test_the_house_style_changes_when_memory_and_state_share_it():
    case = Case("put bread in fridge", KITCHEN, "bread was in shelf 1", KITCHEN)
    made = restyled(case)
    assert "toaster" not in made.state and fault(KITCHEN, made.state) == ""
    assert restyled(Case(case.goal, KITCHEN, case.memory, made.state)) is None


@pytest.mark.parametrize(
    "goal",
    ["put a clean mug in shelf", "heat some mug and put it in shelf", "put some mug on shelf", "put two mug in shelf"],
)
def test_what_is_looked_for_is_found(goal):
    made = found(Case(goal, "On the drawer 5, you see nothing.", "look on the countertop", ""))
    assert made.state == "On the drawer 5, you see a mug 1."


def test_the_price_rises_above_the_budget_where_the_memory_is_about_buying():
    made = dearer(Case(GOAL, PAGE, "when all fits, buy now", ""))
    assert "Price: $69.99" in made.state
    assert dearer(Case(GOAL, PAGE, "compact is kessal", "")) is None
    assert dearer(Case(GOAL, PAGE.replace("19.99", "70.00"), "buy now", "")) is None


def episode(name, memory, outcome="accepted", won=True, state=KITCHEN):
    made = Trajectory(name, "alfworld", "train", "task", "pick", "put bread in fridge", 0, 0, won=won)
    made.steps = [Step("You are in the hall.", (), "go"), Step(state, (), "look")]
    hit = MemoryHit(f"m{memory}", memory, KITCHEN)
    made.retrievals = [Retrieval(1, "bread", (hit,), outcome, "look there")]
    return made


EPISODES = [
    episode("a", "bread was in shelf 1"),
    episode("b", "bread was in drawer 1", "rejected"),
    episode("c", "bread was in cabinet 1", won=False),
]


def test_probes_come_from_accepted_retrievals_and_hold_their_context():
    made = build(EPISODES, 10)
    assert {probe.memory for probe in made} == {"bread was in shelf 1", "bread was in cabinet 1"}
    assert {probe.rule for probe in made} == {"moved", "restyled"}
    one = made[0]
    assert one.history == [["You are in the hall.", "go"]] and one.s_plus == KITCHEN
    assert one.situation(one.s_minus).observation == one.s_minus and one.hit().source_state == KITCHEN
    assert build(EPISODES, 10) == made and [probe.memory for probe in build(EPISODES, 1)] == ["bread was in shelf 1"]


def test_probes_survive_the_way_through_a_file(tmp_path):
    made = build(EPISODES, 10)
    write_probes(tmp_path / "p.jsonl", made)
    assert read_probes(tmp_path / "p.jsonl") == made
    (tmp_path / "p.jsonl").write_text('{"id": "x"}\n')
    with pytest.raises(EvaluationError, match="line 1"):
        read_probes(tmp_path / "p.jsonl")
    with pytest.raises(EvaluationError, match="probe build"):
        read_probes(tmp_path / "none.jsonl")


@pytest.mark.parametrize("env", ["alfworld", "webshop"])
def test_the_sets_that_ship_are_minimal_edits(env):
    shipped = read_probes(SHIPPED / f"{env}.jsonl")
    assert len(shipped) >= 20 and len({probe.id for probe in shipped}) == len(shipped)
    assert all(probe.env == env and fault(probe.s_plus, probe.s_minus) == "" and probe.flip for probe in shipped)


@pytest.mark.parametrize(
    "text, lenient, strict",
    [
        ("<EMPTY>", "rejected", "rejected"),
        (" <EMPTY>\n", "rejected", "rejected"),
        ("", "rejected", "malformed"),
        ("<EMPTY> because it moved", "rejected", "malformed"),
        ("Bread was in shelf 1.", "unchanged", "unchanged"),
        ("look for bread in drawer 1", "adapted", "adapted"),
    ],
)
def test_labels(text, lenient, strict):
    memory = "bread was in shelf 1"
    assert (label(text, memory), label(text, memory, strict=True)) == (lenient, strict)


def test_the_report_is_paired_and_by_rule():
    made = build(EPISODES, 4)
    before = [probe.memory for probe in made]
    got = report(made, before, ["<EMPTY>" if probe.rule == "moved" else probe.memory for probe in made])
    everything, moves = got["all"], got["by_rule"]["moved"]["lenient"]
    assert everything["lenient"]["before"]["unchanged"] == 1.0 and everything["moved"] == 0.5
    assert moves["after"]["rejected"] == 1.0 and moves["shift"]["difference"] == 1.0
    assert moves["pairs"] == {"unchanged to rejected": 2}
    assert got["by_rule"]["restyled"]["strict"]["shift"]["difference"] == 0.0
    assert "| all | 4 | lenient | 100.0 → 50.0 |" in markdown(got)
    with pytest.raises(EvaluationError, match="no probes"):
        report([], [], [])


def test_a_teachers_answers_are_held_to_the_checks():
    answers = iter(
        [
            '```json\n{"s_minus": "' + KITCHEN.replace("shelf", "sofa") + '", "flip": "the shelf\\n is a sofa"}\n```',
            '{"s_minus": "A garden.", "flip": "all of it"}',
        ]
    )
    engine = ScriptedEngine(lambda prompt, rng: next(answers))
    made, faults = asyncio.run(teach(EPISODES, 10, engine))
    assert [(probe.rule, probe.flip) for probe in made] == [("teacher", "the shelf is a sofa")]
    assert dict(faults) == {"more than one fact changed": 1}
    assert read_edit("no JSON") is None and read_edit('{"s_minus": 3, "flip": ""}') is None
