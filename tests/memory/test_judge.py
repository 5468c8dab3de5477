"""The verifier on a real engine: prompts in tokens, score distributions from watched log-probs."""

import asyncio
import json
import math
import re
from dataclasses import replace

import pytest

from mh_train.agent.speaker import EngineSpeaker
from mh_train.config.schema import Judging, VerifierConfig
from mh_train.engine.base import Completion, Request
from mh_train.engine.scripted import CharCodec, ScriptedEngine
from mh_train.memory.candidates import make_judge
from mh_train.memory.judge import EngineJudge, JudgeRequest, score_tokens
from mh_train.memory.judge_prompts import CRITERIA
from mh_train.memory.records import MemoryStoreError
from mh_train.memory.verifier import verify
from mh_train.memory.visible import VisibleEpisode, VisibleStep

EPISODE = VisibleEpisode(
    "toy", "find bread", (VisibleStep("bread 1 on a shelf", "", "take bread 1"),), "You took it.", "closed"
)


def score_text(prompt: str, rng) -> str:
    """All criteria 4, in the order the prompt asks for."""
    order = re.findall(r"^- (\w+):", prompt, flags=re.MULTILINE)
    assert sorted(order) == sorted(CRITERIA)
    entry = {"score": 4, "rationale": "seen", "evidence_span": "bread 1 on a shelf"}
    return json.dumps({"criteria": dict.fromkeys(order, entry), "label": "verified_success", "failure_guard": "NONE"})


class Unsure(ScriptedEngine):
    """Half sure of what it wrote: every watched token gets the weight 1, the written one 4."""

    async def generate(self, request: Request) -> Completion:
        answer = await super().generate(request)
        soft = [[math.log(4.0 if token == one else 1.0) - 5 for one in request.watch] for token in answer.token_ids]
        return replace(answer, watched=tuple(map(tuple, soft)))


def run(engine: ScriptedEngine, **config):
    judge = EngineJudge(EngineSpeaker(engine), engine)
    settings = replace(VerifierConfig(source=Judging.policy), **config)
    (verdict,) = asyncio.run(verify([EPISODE], ["t"], judge, settings, seed=0, update=1))
    return verdict


def test_an_engine_that_is_certain_gives_the_written_score():
    verdict = run(ScriptedEngine(score_text))
    assert verdict.descriptor.reward == 0.75 and verdict.descriptor.label == "verified_success" and verdict.views == 1


def test_an_unsure_engine_gives_the_expectation():
    verdict = run(Unsure(score_text))
    expected = (0 + 0.25 + 0.5 + 4 * 0.75 + 1) / 8
    assert verdict.descriptor.reward == pytest.approx(expected)
    assert verdict.descriptor.label == "verified_success", "the label rule reads the written scores"


def test_ten_points_fall_back_to_the_written_score_where_ten_is_no_token():
    tokens = score_tokens(CharCodec(), 10)
    assert sorted(tokens.values()) == list(range(1, 10))
    assert run(Unsure(score_text), scale=10).descriptor.reward == pytest.approx(3 / 9)


def test_answers_depend_on_the_request_alone_and_are_asked_together():
    engine = ScriptedEngine(lambda prompt, rng: str(rng.random()))
    judge = EngineJudge(EngineSpeaker(engine), engine)
    asked = [JudgeRequest("verify", [{"role": "user", "content": "x"}], noise, 0.0, 64) for noise in (1, 2, 1)]
    one, two, again = asyncio.run(judge.ask(asked))
    assert one.text == again.text != two.text
    assert judge.fits(asked[0].messages, 50, 9) and not judge.fits(asked[0].messages, 3, 9)
    engine.max_context = 50
    assert judge.fits(asked[0].messages, 50, 9) and not judge.fits(asked[0].messages, 50, 40)


def test_who_judges_follows_the_config():
    engine = ScriptedEngine(score_text)
    speaker = EngineSpeaker(engine)
    assert make_judge(VerifierConfig(source=Judging.off), speaker, engine) is None
    assert make_judge(VerifierConfig(source=Judging.runtime_status), speaker, engine) is None
    assert isinstance(make_judge(VerifierConfig(source=Judging.policy), speaker, engine), EngineJudge)
    with pytest.raises(MemoryStoreError, match="curate\\(judge"):
        make_judge(VerifierConfig(source=Judging.engine), speaker, engine)


def test_a_prompt_never_exceeds_a_small_context():
    seen = []
    engine = ScriptedEngine(lambda prompt, rng: seen.append(len(prompt)) or "", max_context=300)
    judge = EngineJudge(EngineSpeaker(engine), engine)
    (verdict,) = asyncio.run(verify([EPISODE], ["t"], judge, VerifierConfig(max_tokens=100), seed=0, update=0))
    assert verdict.malformed and max(seen) == 200
