"""Streams: equal tasks for all methods, a bank without hidden labels, checkpoints that continue, harm told after."""

import asyncio
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import t as student

from envs.alfworld.expert import AlfworldExpert
from envs.webshop.mini import generate_mini
from mh_train.agent.prompts import Prompts
from mh_train.agent.types import MemoryHit, Step, Trajectory
from mh_train.config import compose
from mh_train.config.schema import Manager, Outcome, Use
from mh_train.engine.base import EngineError
from mh_train.engine.scripted import CharCodec
from mh_train.evaluate.curves import T_95, curve, interval, markdown, summary
from mh_train.evaluate.erring import ErringJudge, read_log
from mh_train.evaluate.harm import Truth
from mh_train.evaluate.readings import READINGS, AlfworldReading, Log
from mh_train.evaluate.statistics import EvaluationError
from mh_train.evaluate.stream import Cell, Method, blind, check_comparable, play_cell
from mh_train.memory.bankfile import read_bank_file
from mh_train.memory.distill import parse_memories
from mh_train.memory.induction import make_candidate, parse_candidates
from mh_train.memory.judge import JudgeAnswer
from mh_train.memory.judge_prompts import CRITERIA, induce_messages, verify_messages
from mh_train.memory.managed import ASK, OPERATIONS, parse_operations
from mh_train.memory.signature import entity_words
from mh_train.memory.verifier import from_status, read
from mh_train.memory.visible import visible
from mh_train.rollout.panels import make_panel
from mh_train.run.folder import RunFolder
from mh_train.stages import parts
from mh_train.stages import stream as stage

TASKS = 10
ROOM = "You are in the middle of a room. Looking quickly around you, you see a drawer 1, a shelf 1, and a toaster 1."


SHARED = [
    "memory.trigger=agentic",
    "memory.max_retrievals=1",
    "memory.milvus.enabled=false",
    "memory.verifier.prompt_tokens=100000",
    "memory.verifier.max_tokens=4000",
    "memory.embedder.name=hashing",
]
GUARD = stage.memory_of("memguard", [])


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    data = tmp_path_factory.mktemp("shop")
    generate_mini(data, seed=1, products=60)
    made = compose(
        [
            "experiment=stream_webshop",
            f"root={tmp_path_factory.mktemp('runs')}",
            f"env.options.store={data / 'store'}",
            "env.train_split=test",
        ]
    )
    made.stream = replace(
        made.stream,
        methods=["none", "append_only", "memguard"],
        tasks=TASKS,
        seeds=[0],
        noise=[0.0, 0.3],
        shared=SHARED,
    )
    return made


@pytest.fixture(scope="module")
def played(config):
    folder = RunFolder.open(config)
    return folder, asyncio.run(stage.run_streams(config, folder))


def rows_of(folder: RunFolder, cell: str) -> list[dict]:
    return [json.loads(line) for line in (folder.path / "stream" / cell / "rows.jsonl").read_text().splitlines()][1:]


def test_all_methods_meet_the_same_tasks_and_only_banks_inject(played):
    folder, result = played
    names = ["none", "append_only", "memguard"]
    assert list(result["methods"]) == names + [f"{name}-noise0.3" for name in names[1:]]
    tasks = {method: [row["task"] for row in rows_of(folder, f"{method}-s0")] for method in result["methods"]}
    assert len(set(map(tuple, tasks.values()))) == 1 and len(tasks["none"]) == TASKS
    assert [point["share"] for point in result["methods"]["memguard"]] == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert sum(row["injected"] for row in rows_of(folder, "none-s0")) == 0
    assert sum(row["injected"] for row in rows_of(folder, "append_only-s0")) > 0
    bank = read_bank_file(folder.path / "stream" / "memguard-s0")
    assert len(bank.state.records) == rows_of(folder, "memguard-s0")[-1]["total"] > 0
    end, along = markdown(result).split("\n\n")
    assert "| memguard - append_only | " in end and along.startswith("| success so far | 20 % | 40 % |")


def test_a_finished_stream_is_read_not_played(config, played):
    folder, result = played
    before = (folder.path / "stream" / "memguard-s0" / "rows.jsonl").stat().st_mtime_ns
    assert asyncio.run(stage.run_streams(config, folder)) == result
    assert (folder.path / "stream" / "memguard-s0" / "rows.jsonl").stat().st_mtime_ns == before


def test_a_killed_stream_continues_at_its_checkpoint(config, played, tmp_path):
    folder, _ = played

    class Killed(Exception):
        pass

    def kill(rows):
        if len(rows) == 6:
            raise Killed

    async def play(root: Path, hear):
        env_class = parts.environment(config)
        panel = make_panel(env_class, "test", config.env.options, TASKS, 0)
        async with parts.pool(config) as pool:
            named = stage.methods(config.stream)
            made = await stage._parts(config, folder, pool, named, panel.tasks)
            cell = Cell(next(m for m in named if m.name == "memguard"), 0, panel)
            return await play_cell(config, cell, made, root, stage._about(config), hear)

    with pytest.raises(Killed):
        asyncio.run(play(tmp_path, kill))
    heard = []
    rows = asyncio.run(play(tmp_path, lambda so_far: heard.append(len(so_far))))
    assert heard == [6, 8, 10] and rows == rows_of(folder, "memguard-s0")
    assert read_bank_file(tmp_path / "memguard-s0").digest == read_bank_file(folder.path / "stream/memguard-s0").digest


def test_the_bank_never_gets_an_outcome():
    episode = Trajectory("a", "toy", "train", "t", "pick", "goal", 0, 0, won=True, score=1.0, reward=10.1)
    lost = replace(episode, won=False, score=0.0, reward=0.0, reward_parts={"outcome": 0.0}, advantage=1.0)
    assert blind(episode) == blind(lost) and not blind(episode).won


def test_methods_with_hidden_labels_or_other_budgets_are_refused():
    with pytest.raises(EvaluationError, match=r"memory\.outcome=verifier"):
        check_comparable([Method("a", replace(GUARD, outcome=Outcome.environment))])
    with pytest.raises(EvaluationError, match=r"memory.k \(3 for b, 5 for a\)"):
        check_comparable([Method("a", GUARD), Method("b", replace(GUARD, k=3))])
    check_comparable([Method("none", replace(GUARD, use=Use.none, k=1)), Method("a", GUARD)])


def episode(*steps: tuple[str, str], won: bool = True) -> Trajectory:
    found = [Step(text, ("go to shelf 1",), action) for text, action in steps]
    made = Trajectory("e", "alfworld", "train", "t", "pick", "put some bread on shelf", 0, 0, steps=found)
    return replace(made, won=won, truncated=not won, final_observation="done")


SOLVED = episode(
    (ROOM, "go to drawer 1"),
    ("The drawer 1 is open. In it, you see a bread 1.", "take bread 1 from drawer 1"),
    ("You pick up the bread 1 from the drawer 1.", "move bread 1 to shelf 1"),
)
LOST = episode((ROOM, "go to shelf 1"), ("On the shelf 1, you see nothing.", "go to shelf 1"), won=False)


def test_harm_is_advice_that_differs_from_what_the_solution_proves():
    truth = Truth(lambda: AlfworldExpert(0), AlfworldReading(), [SOLVED])
    assert truth.known == {"t": "bread is in drawer 1"}
    told = {"bread was in drawer": False, "bread was in shelf": True, "mug was in shelf": False, "look around": False}
    assert {text: truth.contradicts(LOST, MemoryHit("m", text, ROOM)) for text in told} == told
    assert not Truth(lambda: AlfworldExpert(0), AlfworldReading(), [LOST]).contradicts(
        LOST, MemoryHit("m", "bread was in shelf", ROOM)
    )


def always(messages) -> bool:
    return True


@pytest.mark.parametrize(
    ("seen", "label", "place"), [(SOLVED, "verified_success", "drawer"), (LOST, "verified_fail", "shelf")]
)
def test_the_scripted_judge_speaks_the_protocol(seen, label, place):
    judge, shown = ErringJudge(READINGS["alfworld"], fooled=0.0, slip=0.0), visible(seen)
    prompt = "".join(
        f"{m['role']}: {m['content']}\n" for m in verify_messages(shown, "risk", CRITERIA[::-1], 5, always)
    )
    assert read_log(prompt) == Log(seen.goal, tuple((s.observation, s.action) for s in seen.steps), not seen.truncated)
    reading = read(JudgeAnswer(judge(prompt, random.Random(0))), "risk", shown, 5)
    assert reading is not None and reading.label == label and all(reading.found)
    asked = induce_messages(shown, label, 0.5, 0.5, "", [], always)
    entries = parse_candidates(judge("".join(m["content"] for m in asked), random.Random(0)))
    verdict = from_status(shown, GUARD.verifier, 0)
    made = [make_candidate(entry, seen, shown, verdict, 0, "r", entity_words([seen])) for entry in entries]
    assert [candidate.fault for candidate in made] == [""] * len(made)
    assert all(candidate.record.source_state == ROOM for candidate in made)
    assert any(f"bread was in {place}" == candidate.record.content for candidate in made) or label == "verified_fail"


@pytest.mark.parametrize(("seen", "memory"), [(SOLVED, "bread was in drawer"), (LOST, "bread was in shelf")])
def test_the_scripted_writer_distils_what_it_saw(seen, memory):
    judge = ErringJudge(READINGS["alfworld"], fooled=0.0, slip=0.0)
    prompt = CharCodec().decode(Prompts("compact", CharCodec(), 4000, 2, "").distill(seen, 2).ids)
    assert read_log(prompt).steps == tuple((s.observation, s.action) for s in seen.steps)
    told = {text for seed in range(9) for _, text in parse_memories(judge(prompt, random.Random(seed)))}
    assert memory in told
    warned = any("do not look" in text for text in told)
    assert warned != seen.won


@pytest.mark.parametrize(
    ("manager", "new", "operations"),
    [
        ("mem0", "mug was in sink", [("add", "")]),
        ("mem0", "bread was in drawer", []),
        ("mem0", "bread was in fridge", [("delete", "m1"), ("add", "")]),
        ("expel", "bread was in drawer", [("agree", "m1")]),
        ("expel", "bread was in fridge", [("remove", "m1"), ("add", "")]),
    ],
)
def test_the_scripted_keeper_decides_about_what_it_knows(manager, new, operations):
    judge = ErringJudge(READINGS["alfworld"], fooled=0.0, slip=0.0)
    prompt = ASK.format(known="[m1] bread was in drawer", new=new, operations=OPERATIONS[Manager(manager)])
    found = parse_operations(judge(prompt, random.Random(0)))
    assert [(one["op"], one.get("id", "")) for one in found] == operations


def test_the_scripted_agent_says_what_it_cannot_answer():
    with pytest.raises(EngineError, match="stream with a model"):
        ErringJudge(READINGS["alfworld"], fooled=0.0, slip=0.0)("Write a poem.", random.Random(0))


def test_curves_cumulate():
    rows = [{"task": str(i), "success": float(i % 2), "steps": 4, "injected": 2, "harmful": i == 9, "unfounded": 1,
             "guards": 0, "active": i, "total": i} for i in range(10)]  # fmt: skip
    points = curve(rows)
    assert [p["success"] for p in points] == [0.5, 0.5, 0.5, 0.5, 0.5] and points[-1]["steps"] == 4
    assert [p["injected"] for p in points] == [4, 8, 12, 16, 20] and [p["harmful"] for p in points] == [0, 0, 0, 0, 1]
    assert [p["active"] for p in points] == [1, 3, 5, 7, 9]
    better = [{**row, "success": 1.0} for row in rows]
    result = summary({"a": {0: rows, 1: rows}, "b": {0: better, 1: rows}}, [("b", "a")])
    mean, half = result["differences"]["b - a"]["success"]
    assert mean == 0.25 and half == pytest.approx(T_95[0] * 0.25)
    with pytest.raises(EvaluationError, match="other tasks"):
        summary({"a": {0: rows}, "b": {0: rows[::-1]}}, [])
    with pytest.raises(EvaluationError, match="too short"):
        curve(rows[:2])


def test_the_last_method_is_compared_with_the_others_at_each_noise():
    asked = compose(["experiment=stream_webshop", "stream.noise=[0.0,0.3]"]).stream
    asked.methods = ["none", "verifier_only", "memguard"]
    assert stage.pairs(asked) == [
        ("memguard", "none"),
        ("memguard", "verifier_only"),
        ("memguard-noise0.3", "none"),
        ("memguard-noise0.3", "verifier_only-noise0.3"),
    ]


def test_intervals_are_students():
    assert pytest.approx([student.ppf(0.975, n) for n in range(1, 10)], abs=5e-4) == T_95
    assert interval([1.0]) == (1.0, None)
