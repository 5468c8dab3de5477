"""The verifier's equations, readings and views."""

import asyncio
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_parts import trajectory

from mh_train.agent.types import Turn
from mh_train.config.schema import VerifierConfig
from mh_train.memory.judge import JudgeAnswer, JudgeRequest
from mh_train.memory.judge_prompts import CRITERIA
from mh_train.memory.verifier import (
    Reading,
    agreed,
    boundary,
    confidence,
    dispersion,
    expected,
    from_status,
    judged,
    read,
    reward,
    ruled,
    uncertainty,
    verify,
)
from mh_train.memory.visible import VisibleEpisode, VisibleStep, visible

CONFIG = VerifierConfig()
UNIFORM = [1.0] * 4
EPISODE = VisibleEpisode(
    "toy", "put bread in fridge", (VisibleStep("You see bread 1.", "", "take bread 1"),), "Done.", "closed"
)


def answer(
    scores=(5, 5, 5, 4), label="verified_success", guard="NONE", span="You see bread 1.", odds=None
) -> JudgeAnswer:
    criteria = {
        n: {"score": s, "rationale": f"because {n}", "evidence_span": span}
        for n, s in zip(CRITERIA, scores, strict=True)
    }
    text = json.dumps({"criteria": criteria, "label": label, "failure_guard": guard})
    return JudgeAnswer(text, odds) if odds else JudgeAnswer(text)


class SetJudge:
    """Answers from a function of (view, attempt, episode); remembers what was asked."""

    def __init__(self, answers):
        self.answers, self.asked = answers, []

    async def ask(self, requests):
        self.asked.append(list(requests))
        return [self.answers(r) for r in requests]

    def fits(self, messages, tokens, answer):
        return sum(len(m["content"]) for m in messages) <= 4 * tokens


def view_of(request: JudgeRequest) -> str:
    return request.messages[-1]["content"].rsplit("View ", 1)[1].split(":")[0]


def verdicts(judge, episodes, **config):
    settings = replace(CONFIG, **config)
    return asyncio.run(verify(episodes, [str(i) for i in range(len(episodes))], judge, settings, seed=0, update=3))


def test_the_papers_example():
    """Scores 3, 3, 3, 2 (MemGuard B.5): R = .4375, just below the band, one view."""
    means = np.array([[0.5, 0.5, 0.5, 0.25]])
    assert reward(means, UNIFORM) == pytest.approx(0.4375)
    assert boundary(0.4375, CONFIG) == pytest.approx(0.875)
    assert dispersion(means) == pytest.approx(math.sqrt(3) / 16 / 0.5)
    assert uncertainty(means, CONFIG) == pytest.approx(0.5 * 0.875 + 0.5 * math.sqrt(3) / 8)


@pytest.mark.parametrize(
    ("r", "b"), [(0.30, 0), (0.35, 0), (0.40, 0.5), (0.45, 1), (0.55, 1), (0.65, 1), (0.70, 0.5), (0.75, 0), (1, 0)]
)
def test_boundary_proximity_is_a_trapezoid(r, b):
    assert boundary(r, CONFIG) == pytest.approx(b)


def test_views_enter_by_the_larger_spread():
    same_criteria = np.array([[0.2] * 4, [0.8] * 4])
    assert dispersion(same_criteria) == pytest.approx(0.3 / 0.5)
    assert dispersion(same_criteria[:1]) == 0
    assert dispersion(np.array([[0, 0, 1, 1.0]])) == 1
    assert reward(same_criteria, UNIFORM) == pytest.approx(0.5)
    assert reward(np.array([[1, 0, 0, 0.0]]), [3, 1, 1, 1]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("scale", "points"), [(5, [0, 0.25, 0.5, 0.75, 1]), (3, [0, 0.5, 1]), (10, [i / 9 for i in range(10)])]
)
def test_score_tokens_map_to_the_unit_interval(scale, points):
    assert [expected(None, v, scale)[0] for v in range(1, scale + 1)] == pytest.approx(points)


def test_expectations_are_renormalised_over_the_allowed_scores():
    odds = {v: math.log(p) for v, p in zip(range(1, 6), [0.05, 0.05, 0.1, 0.2, 0.1], strict=True)}
    mean, spread = expected(odds, 4, 5)
    weights = np.array([0.05, 0.05, 0.1, 0.2, 0.1]) / 0.5
    points = np.arange(5) / 4
    assert mean == pytest.approx(weights @ points)
    assert spread == pytest.approx(math.sqrt(weights @ points**2 - (weights @ points) ** 2))
    assert expected({4: -0.1}, 4, 5) == (0.75, 0.0)


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=1, max_size=3))
def test_everything_stays_in_range(rows):
    means = np.array(rows)
    readings = [Reading("full", tuple(r), (0.1,) * 4, (0.5,) * 4, "uncertain", found=(True, False)) for r in rows]
    verdict = judged(readings, "closed", CONFIG, 0)
    for value in (reward(means, UNIFORM), dispersion(means), uncertainty(means, CONFIG), verdict.descriptor.confidence):
        assert -1e-9 <= value <= 1 + 1e-9


def test_the_label_rule():
    def claimed(label, *emitted):
        return Reading("full", (0.6,) * 4, (0,) * 4, emitted, label)

    assert ruled(claimed("verified_success", 0.75, 0.75, 0, 0), blocking=False) == "verified_success"
    assert ruled(claimed("verified_success", 0.75, 0.5, 1, 1), blocking=False) == "uncertain"
    assert ruled(claimed("verified_success", 1, 1, 1, 1), blocking=True) == "uncertain"
    assert ruled(claimed("verified_fail", 1, 1, 1, 1), blocking=False) == "verified_fail"
    assert agreed(["verified_fail", "uncertain", "verified_fail"]) == "verified_fail"
    assert agreed(["verified_fail", "verified_success"]) == "uncertain"


def test_confidence_rewards_agreement_stability_and_evidence():
    sure = Reading("full", (1, 1, 1, 0.75), (0,) * 4, (1, 1, 1, 0.75), "verified_success", found=(True,) * 4)
    assert confidence([sure], "verified_success", False, UNIFORM) == 1
    unquoted = replace(sure, found=(False,) * 4)
    assert confidence([unquoted], "verified_success", False, UNIFORM) == pytest.approx((1 + 1 + 0.5) / 3)
    spread = replace(sure, spreads=(0.25,) * 4)
    assert confidence([spread], "verified_success", False, UNIFORM) == pytest.approx((1 + 0.5 + 1) / 3)
    other = replace(sure, label="uncertain")
    assert confidence([sure, other], "uncertain", False, UNIFORM) == pytest.approx((0.5 + 1 + 1) / 3)


def test_a_clear_success_needs_one_view():
    judge = SetJudge(lambda r: answer())
    (verdict,) = verdicts(judge, [EPISODE])
    assert verdict.descriptor.label == "verified_success" and verdict.descriptor.verified_at == 3
    assert verdict.descriptor.reward == pytest.approx(3.75 / 4) and verdict.descriptor.confidence == 1
    assert verdict.views == 1 and [view_of(r) for r in judge.asked[0]] == ["full"]
    assert judge.asked[0][0].temperature == 0 and judge.asked[0][0].scale == 5


def test_boundary_cases_are_seen_from_three_sides_with_permuted_criteria():
    unclear = answer((3, 3, 3, 5), "uncertain")
    judge = SetJudge(
        lambda r: answer((2, 1, 3, 2), "verified_fail", "verify the row") if view_of(r) == "risk" else unclear
    )
    (verdict,) = verdicts(judge, [EPISODE])
    assert [view_of(r) for batch in judge.asked for r in batch] == ["full", "evidence", "risk"]
    assert verdict.views == 3 and verdict.descriptor.label == "uncertain" and verdict.guard == "verify the row"
    orders = [[m for m in batch[0].messages[-1]["content"].split("\n") if m.startswith("- ")] for batch in judge.asked]
    assert len({tuple(order) for order in orders}) == 3 and len({frozenset(order) for order in orders}) == 1
    heads = {batch[0].messages[-1]["content"].split("Score each")[0] for batch in judge.asked}
    assert len(heads) == 1, "all views share the log in front, for the prefix cache"
    (single,) = verdicts(SetJudge(lambda r: unclear), [EPISODE], views=1)
    assert single.views == 1


def test_unreadable_answers_are_tried_once_more_then_uncertain():
    judge = SetJudge(lambda r: JudgeAnswer("I think it went well.") if r.temperature == 0 else answer())
    (verdict,) = verdicts(judge, [EPISODE])
    assert not verdict.malformed and verdict.descriptor.label == "verified_success"
    judge = SetJudge(lambda r: JudgeAnswer("no"))
    (verdict,) = verdicts(judge, [EPISODE])
    assert verdict.malformed and verdict.descriptor.label == "uncertain" and verdict.descriptor.confidence == 0
    assert [len(batch) for batch in judge.asked] == [1, 1] and judge.asked[0][0].noise != judge.asked[1][0].noise


def test_a_view_that_stays_unreadable_stands_as_uncertain():
    unclear = answer((3, 3, 3, 5), "verified_fail")
    one = SetJudge(lambda r: JudgeAnswer("?") if view_of(r) == "risk" else unclear)
    (verdict,) = verdicts(one, [EPISODE])
    assert (verdict.views, verdict.unread, verdict.malformed) == (2, 1, False)
    assert verdict.descriptor.label == "verified_fail"
    assert [view_of(r) for batch in one.asked for r in batch] == ["full", "evidence", "risk", "risk"]
    (both,) = verdicts(SetJudge(lambda r: unclear if view_of(r) == "full" else JudgeAnswer("?")), [EPISODE])
    assert both.unread == 2 and both.descriptor.label == "uncertain"
    assert both.descriptor.confidence < verdict.descriptor.confidence


@settings(deadline=None)
@given(st.text())
def test_reading_never_raises(text):
    assert read(JudgeAnswer(text), "full", EPISODE, 5) is None
    good = answer().text
    broken = good[: len(good) // 2] + text + good[len(good) // 2 :]
    read(JudgeAnswer(broken), "full", EPISODE, 5)


def test_scores_outside_the_scale_are_unreadable():
    assert read(answer((5, 5, 5, 6)), "full", EPISODE, 5) is None
    assert read(answer((5, 5, 5, 6)), "full", EPISODE, 10) is not None
    assert read(answer(label="won"), "full", EPISODE, 5) is None


def test_score_distributions_are_read_at_the_score_positions():
    text = answer((5, 4, 3, 2), "uncertain").text
    seen = []

    def odds(at):
        seen.append(text[at])
        return dict.fromkeys(range(1, 6), 0.0)

    reading = read(JudgeAnswer(text, odds), "full", EPISODE, 5)
    assert seen == ["5", "4", "3", "2"]
    assert reading.means == pytest.approx((0.5,) * 4) and reading.emitted == (1, 0.75, 0.5, 0.25)


def test_hidden_outcomes_cannot_reach_the_verifier():
    seen = trajectory(
        "t", observations=["a room", "a drawer"], final_observation="Thank you! Your score (min 0.0, max 1.0): 1.0"
    )
    seen.turns = [Turn("act", 0, (1,), (2,), (0.0,), "<think>look around</think><action>look</action>")]
    hidden = replace(seen, won=False, score=0.2, reward=-1.0, reward_parts={"outcome": 0.0}, advantage=3.0)
    hidden = replace(hidden, final_observation="Thank you! Your score (min 0.0, max 1.0): 0.2")
    assert visible(seen) == visible(hidden)
    assert visible(seen).final_output == "Thank you!" and visible(seen).steps[0].thought == "look around"
    assert not {"won", "score", "reward", "advantage"} & set(VisibleEpisode.__dataclass_fields__)
    judge = SetJudge(lambda r: answer())
    assert verdicts(judge, [visible(seen)]) == verdicts(judge, [visible(hidden)])
    assert judge.asked[0][0].messages == judge.asked[1][0].messages


def test_the_status_is_what_the_agent_saw_and_can_be_masked():
    won, lost = trajectory("a"), trajectory("b", won=False, truncated=True)
    assert (visible(won).status, visible(lost).status) == ("closed", "step_limit")
    assert visible(won, mask_status=True).status == "unknown"


def test_without_a_model_the_status_decides():
    success = from_status(EPISODE, CONFIG, 1).descriptor
    failure = from_status(replace(EPISODE, status="step_limit"), CONFIG, 1).descriptor
    masked = from_status(replace(EPISODE, status="unknown"), CONFIG, 1).descriptor
    assert (success.label, failure.label, masked.label) == ("verified_success", "verified_fail", "uncertain")
    assert success.reward >= 0.70 > failure.reward and success.confidence >= 0.60


def test_a_long_episode_keeps_head_and_tail_within_the_limit():
    steps = tuple(VisibleStep(f"room number {i} " + "word " * 40, "", f"go {i}") for i in range(200))
    judge = SetJudge(lambda r: answer(span="room number 0"))
    (verdict,) = verdicts(judge, [replace(EPISODE, steps=steps)], prompt_tokens=2000)
    prompt = judge.asked[0][0].messages
    assert judge.fits(prompt, 2000, 0) and verdict.views >= 1
    text = prompt[-1]["content"]
    assert (
        "room number 0" in text
        and "room number 199" in text
        and "steps left out" in text
        and "room number 100" not in text
    )
