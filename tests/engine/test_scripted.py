"""The scripted engine and its character codec."""

from __future__ import annotations

import random

import engine_contract as contract
from hypothesis import given
from hypothesis import strategies as st

from mh_train.engine.base import Request, Sampling
from mh_train.engine.scripted import (
    ADVERSARIAL,
    CharCodec,
    ScriptedEngine,
    adversarial_policy,
    listed_actions,
    random_admissible_policy,
)


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_any_text_comes_back_from_its_ids(text: str) -> None:
    codec = CharCodec()
    ids = codec.encode_text(text)
    assert codec.decode([*ids, *codec.end_ids()]) == text
    assert not set(ids) & set(codec.end_ids())


def test_the_policy_reads_the_prompt_and_answers_with_its_own_words() -> None:
    engine = ScriptedEngine(lambda prompt, rng: prompt.upper())
    ids = engine.codec.encode([{"role": "system", "content": "act"}, {"role": "user", "content": "look"}])
    answer = contract.answers(engine, [Request(tuple(ids), Sampling())])[0]
    assert (answer.text, answer.finish_reason) == ("SYSTEM: ACT\nUSER: LOOK\nASSISTANT: ", "stop")


def test_long_answers_are_cut_and_watched_characters_are_certain() -> None:
    engine = ScriptedEngine(lambda prompt, rng: "score 4")
    four, five = engine.codec.encode_text("45")
    whole = contract.answers(engine, [Request((1,), Sampling(), watch=(four, five))])[0]
    assert whole.watched[-2] == (0.0, float("-inf"))
    cut = contract.answers(engine, [Request((1,), Sampling(max_tokens=5))])[0]
    assert (cut.text, cut.finish_reason, len(cut.logprobs)) == ("score", "length", 5)


def test_the_adversary_says_everything_on_its_list() -> None:
    engine = ScriptedEngine(adversarial_policy)
    said = {a.text for a in contract.answers(engine, contract.requests(engine, 400, max_tokens=10**6))}
    assert said == set(ADVERSARIAL)


def test_the_random_walk_chooses_among_the_listed_actions() -> None:
    prompt = "Task: x\nAdmissible actions: look\nObservation: y\nAdmissible actions: go to bed 1, look\nAnswer."
    policy = random_admissible_policy(listed_actions)
    said = {policy(prompt, random.Random(seed)) for seed in range(40)}
    assert said == {f"<think>Try something.</think><action>{a}</action>" for a in ("go to bed 1", "look")}
    assert policy("no list here", random.Random(0)) == "<EMPTY>"
