"""Which candidates of an induction are kept."""

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_parts import trajectory

from mh_train.config.schema import AdmissionConfig, VerifierConfig
from mh_train.memory.admission import admit
from mh_train.memory.induction import as_guard, induce, make_candidate, parse_candidates, restates
from mh_train.memory.judge import JudgeAnswer
from mh_train.memory.records import Descriptor
from mh_train.memory.signature import entity_words
from mh_train.memory.verifier import Verdict
from mh_train.memory.visible import visible

TRAJECTORY = trajectory(
    "t", observations=["You see a fridge 1.", "The bread 1 is in the drawer 1."], goal="put bread in fridge"
)
EPISODE = visible(TRAJECTORY)
NAMES = entity_words([TRAJECTORY])
VERDICT = Verdict(Descriptor(0.8, 0.9, "verified_success", 2), 0.1, guard="check the drawer first")
GOOD = {
    "type": "procedural_hint",
    "title": "Look in closed places",
    "description": "Food is often put away.",
    "content": "Open closed containers near the sink when food is not in sight.",
    "applicability": "searching for food",
    "risk": "low",
    "guard_condition": "NONE",
    "evidence_span": "The bread 1 is in the drawer",
    "reject_reason": "NONE",
}


def candidate(**changes):
    return make_candidate({**GOOD, **changes}, TRAJECTORY, EPISODE, VERDICT, 2, "run", NAMES)


def test_a_backed_general_memory_is_kept():
    kept = candidate()
    assert kept.fault == ""
    record = kept.record
    assert (record.type, record.state, record.risk, record.guard_condition) == (
        "procedural_hint",
        "provisional",
        "low",
        "",
    )
    assert record.source_state == "The bread 1 is in the drawer 1." and record.provenance[0].step == 1
    assert record.id == candidate().record.id


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"evidence_span": "NONE"}, "evidence span"),
        ({"evidence_span": "The bread is in the microwave"}, "evidence span"),
        ({"reject_reason": "too special"}, "declined by its writer: too special"),
        ({"content": "Put the bread in the fridge."}, "restates the task"),
        ({"content": "The food is always in drawer 1."}, "one-off name 'drawer 1'"),
        ({"type": "poem"}, "known type"),
        ({"content": ""}, "no content"),
        ({"type": "failure_avoidance", "content": "Go to the sink and wash it."}, "condition or a check"),
    ],
)
def test_candidates_are_rejected_with_a_reason(changes, reason):
    assert reason in candidate(**changes).fault


def test_a_failure_memory_is_a_check_and_takes_the_verifiers_guard():
    kept = candidate(type="failure_avoidance", content="Do not close the container before checking what it holds.")
    assert kept.fault == "" and kept.record.guard_condition == "check the drawer first"
    own = candidate(type="failure_avoidance", content="Check twice before leaving.", guard_condition="before leaving")
    assert own.record.guard_condition == "before leaving"


def test_numbers_that_are_not_names_of_this_episode_are_fine():
    assert candidate(content="Try at most shelf 9 places before asking; rule 1 of search.").fault == ""


def test_evidence_may_leave_out_a_middle_and_differ_in_case():
    assert candidate(evidence_span='"the BREAD 1 ... drawer 1"').fault == ""
    assert candidate(evidence_span="drawer 1 ... bread 1 is").fault != ""


def test_a_distilled_failure_becomes_a_guard():
    record = candidate().record
    guard = as_guard(record, "before leaving")
    assert guard.type == guard.signature.type == "failure_avoidance" and guard.guard_condition == "before leaving"
    judged = replace(guard, descriptor=Descriptor(0.1, 0.9, "verified_fail", 0))
    settings = AdmissionConfig(enabled=True)
    assert admit(judged, settings)[0] == "active" and admit(replace(judged, guard_condition=""), settings)[0] is None


def test_restating():
    assert restates("put the bread in fridge", "put bread in fridge")
    assert not restates("open closed drawers when food is missing", "put bread in fridge")


def test_at_most_three_candidates_per_episode_and_unreadable_answers_counted():
    class Answers:
        async def ask(self, requests):
            assert [r.kind for r in requests] == ["induce", "induce"] and requests[0].noise != requests[1].noise
            many = {"records": [{**GOOD, "title": f"hint {i}"} for i in range(5)]}
            return [JudgeAnswer(json.dumps(many)), JudgeAnswer("no json")]

        def fits(self, messages, tokens, answer):
            return True

    other = trajectory("u", observations=["x"])
    found, counts = asyncio.run(
        induce([TRAJECTORY, other], [EPISODE, visible(other)], [VERDICT, VERDICT], Answers(), VerifierConfig(), 0, 2)
    )
    assert [i for i, _ in found] == [0, 0, 0] and counts["memory/induce_unparsed"] == 1


@settings(deadline=None)
@given(
    st.text()
    | st.dictionaries(st.sampled_from(list(GOOD)), st.none() | st.text() | st.integers()).map(
        lambda d: json.dumps({"records": [d]})
    )
)
def test_reading_candidates_never_raises(text):
    for entry in parse_candidates(text) or []:
        make_candidate(entry, TRAJECTORY, EPISODE, VERDICT, 0, "", NAMES)
