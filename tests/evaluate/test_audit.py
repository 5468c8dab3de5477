"""Audits against cases counted by hand, and the tokens that memory costs."""

import asyncio
import json

import pytest

from mh_train.agent.speaker import EngineSpeaker, TurnRequest
from mh_train.agent.types import MemoryHit, Retrieval, Trajectory, Turn
from mh_train.engine.base import Completion, Message, Sampling
from mh_train.engine.scripted import ScriptedEngine
from mh_train.evaluate.audit import RISKS, calibration, cost, guard_risks, risk_of, trace
from mh_train.evaluate.statistics import EvaluationError
from mh_train.memory.counting import Bill
from mh_train.memory.journal import Event
from mh_train.memory.judge import EngineJudge, JudgeRequest
from mh_train.memory.records import Provenance, Record, Signature
from mh_train.stages.audit import journal_events, markdown

OK, BAD, UNSURE = "verified_success", "verified_fail", "uncertain"


def episode(name, won, label=OK, used=(), views=1, reward=0.5):
    made = Trajectory(name, "toy", "train", "task", "pick", "goal", 0, 0, won=won, seconds=2.0)
    made.extra["verdict"] = {"label": label, "reward": reward, "confidence": 0.8, "uncertainty": 0.1, "views": views}
    made.retrievals = [Retrieval(0, "q", (MemoryHit(one, "m", "s"),), outcome) for one, outcome in used]
    return made


def record(name, source="a", **values):
    values.setdefault("type", "procedural_hint")
    return Record(
        name, "toy", "pick", values.pop("content", "look"), provenance=(Provenance(trajectory=source),), **values
    )


def added(one):
    return Event("add", one.id, 0, "curate", "", {"record": one.to_json()})


EPISODES = [
    *[episode(f"won-{i}", True) for i in range(6)],
    episode("won-but-doubted", True, UNSURE, views=3),
    episode("won-but-refused", True, BAD),
    episode("a", False, OK),
    episode("lost", False, BAD),
]


def test_calibration_by_hand():
    got = calibration(EPISODES)
    assert got["confusion"] == {
        OK: {"won": 6, "lost": 1},
        BAD: {"won": 1, "lost": 1},
        UNSURE: {"won": 1, "lost": 0},
    }
    assert got["balanced_accuracy"] == pytest.approx((6 / 8 + 1 / 2) / 2)
    assert got["false_accepts"] == 1 and got["false_accept_rate"]["share"] == 0.5
    assert got["false_rejects"] == 2 and got["false_reject_rate"]["share"] == 0.25
    assert got["agreement"]["share"] == pytest.approx(0.7) and got["verified_again"] == 0.1


def test_calibration_needs_verdicts_and_both_outcomes():
    with pytest.raises(EvaluationError, match=r"memory\.verifier\.source"):
        calibration([Trajectory("x", "toy", "train", "t", "p", "g", 0, 0)])
    assert calibration([episode("x", True)])["balanced_accuracy"] is None


def test_a_false_accept_is_followed_to_the_failure_it_is_met_in():
    active, idle, read = record("m1"), record("m2"), record("m3")
    guard, waiting = record("m4", type="failure_avoidance"), record("m5", state="provisional")
    sound = record("m6", source="won-0")
    events = [added(one) for one in (active, idle, read, guard, waiting, sound)]
    events.append(Event("reject", "m7", 0, "curate", "low", {"trajectory": "a", "type": "procedural_hint"}))
    later = [
        episode("later-1", False, BAD, [("m1", "accepted"), ("m6", "accepted")]),
        episode("later-2", True, OK, [("m1", "replayed"), ("m3", "rejected")]),
    ]
    assert trace([*EPISODES, *later], events) == {
        "false_accepts": 1,
        "candidates": 6,
        "blocked": 3,
        "active": 3,
        "retrieved": 2,
        "influenced": 1,
        "failure": 1,
    }


FAIL = {"type": "failure_avoidance", "guard_condition": "if the drawer is closed", "content": "check it before"}
NAMED = Signature(condition=("drawer",))


@pytest.mark.parametrize(
    "risk, source, values",
    [
        ("misattributed cause", "won-0", {"signature": NAMED}),
        ("stale or conflicting", "a", {"signature": NAMED, "conflict_links": ("m9",)}),
        ("incorrect strategy", "a", {"signature": NAMED, "guard_condition": ""}),
        ("over-general", "a", {}),
        ("over-specific", "a", {"signature": Signature(condition=("drawer", "mug", "shelf"), options=("1", "2"))}),
        ("none seen", "a", {"signature": NAMED}),
    ],
)
def test_risks_of_warnings(risk, source, values):
    won = {one.id: one.won for one in EPISODES}
    assert risk in RISKS and risk_of(record("g", source, **{**FAIL, **values}), won) == risk


def test_the_risk_table_counts_what_is_active_and_what_was_governed():
    records = [record("g1", **FAIL), record("g2", state="archived", **FAIL), record("advice")]
    refused = [
        Event("reject", "g3", 0, "curate", "", {"type": "failure_avoidance", "content": "go left"}),
        Event("reject", "m", 0, "curate", "", {"type": "procedural_hint", "content": "go left"}),
    ]
    table = guard_risks(records, refused, {})
    assert table["over-general"] == {"cases": 2, "active": 1, "governed": 1}
    assert table["incorrect strategy"] == {"cases": 1, "active": 0, "governed": 1}
    assert sum(row["cases"] for row in table.values()) == 3


def test_cost_per_episode():
    one = episode("x", True)
    one.turns = [
        Turn("act", 0, (1,) * 30, (2,) * 10, (0.0,) * 10, ""),
        Turn("reconstruct", 0, (1,) * 15, (2,) * 5, (0.0,) * 5, ""),
    ]
    metrics = [
        {"env/episodes": 2.0, "memory/tokens_verify": 80.0},
        {"env/episodes": 2.0, "memory/tokens_distill": 40.0},
    ]
    got = cost([one, one], metrics, 2_500_000)
    assert got["tokens"] == {"act": 40.0, "reconstruct": 20.0, "verify": 20.0, "distill": 10.0}
    assert (got["agent_tokens"], got["extra_tokens"], got["total_tokens"]) == (60.0, 30.0, 90.0)
    assert (got["seconds"], got["storage_mb"]) == (2.0, 2.5)


def test_every_token_of_speakers_and_judges_is_counted():
    engine = ScriptedEngine(lambda prompt, rng: "four")
    bill = Bill()
    turn = TurnRequest("distill", 0, (1, 2, 3), Sampling(), 0, "", None)
    answer = asyncio.run(bill.speaker(EngineSpeaker(engine)).speak(turn))
    assert isinstance(answer, Completion) and answer.text == "four"
    assert bill.metrics() == {"memory/tokens_distill": 3.0 + len(answer.token_ids)}
    judge = bill.judge(EngineJudge(EngineSpeaker(engine), engine))
    asyncio.run(judge.ask([JudgeRequest("verify", [Message(role="user", content="judge")], 0, 0.0, 8)]))
    assert bill.metrics()["memory/tokens_verify"] > len(answer.token_ids) and bill.judge(None) is None


def test_only_sealed_events_of_a_journal_count(tmp_path):
    path = tmp_path / "journal.jsonl"
    lines = [{"format": 1}, json.loads(added(record("m1")).to_line()), {"boundary": 0}]
    lines.append(json.loads(added(record("m2")).to_line()))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [event.id for event in journal_events(path)] == ["m1"] and journal_events(tmp_path / "none") == []


def test_the_text_says_what_is_missing():
    row = dict.fromkeys(("reject_rate", "copy", "distance", "grounding"))
    row |= dict.fromkeys(("retrievals", "accepted", "rejected"), 0.0)
    row |= {name: {"episodes": 0, "success": None} for name in ("when_accepted", "when_rejected")}
    told = markdown(
        {
            "over_training": {3: row},
            "verifier": {"missing": "No verdicts."},
            "failure_memories": guard_risks([], [], {}),
            "cost": cost([episode("x", True)], [], 0),
        }
    )
    assert "No verdicts." in told and "| 3 | 0.000 |" in told and "| act tokens | 0 |" in told
