"""Every rendering of every preset against its golden file; what is shared, what is shortened and what never is.

To accept a deliberate change of wording: GOLDEN=write python -m pytest tests/agent/test_prompts.py, then read the diff.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mh_train.agent.presets import PRESETS
from mh_train.agent.prompts import LEAST_TEXT, Situation
from mh_train.agent.types import MemoryHit, Step, Trajectory

GOLDEN = Path(__file__).parent / "golden"
ROOM = "You are in a kitchen. You see a cabinet 1, a fridge 1, and a countertop 1."
ACTIONS = ("go to cabinet 1", "go to fridge 1", "look")
STEPS = (
    Step(ROOM, ACTIONS, "go to countertop 1"),
    Step("On the countertop 1, you see an apple 1.", ACTIONS, "take apple 1 from countertop 1"),
    Step("You pick up the apple 1.", ACTIONS, "", malformed=True),
    Step("You pick up the apple 1.", ACTIONS, "go to fridge 1"),
)
START = Situation("cool an apple.", (), ROOM, ACTIONS)
LATER = Situation("cool an apple.", STEPS, "The fridge 1 is closed.", ("open fridge 1", "cool apple 1 with fridge 1"))


def with_roles(hits):
    summary = MemoryHit("s1", "Cooling takes a fridge; heating a microwave.", "", role="summary")
    guard = MemoryHit("g1", "If nothing is held, cooling fails: take the object first.", "", role="guard")
    return (*hits[:2], summary, guard)


def episode() -> Trajectory:
    return Trajectory(
        "e",
        "kitchen",
        "train",
        "t1",
        "cool",
        "cool an apple.",
        0,
        0,
        steps=list(STEPS),
        final_observation="You cool the apple 1.",
        won=True,
    )


RENDERINGS = {
    "act_start": lambda p, hits: p.act(START),
    "act_or_ask_start": lambda p, hits: p.act(START, offer_memory=True),
    "act_later": lambda p, hits: p.act(LATER),
    "act_or_ask_later": lambda p, hits: p.act(LATER, offer_memory=True),
    "act_guided": lambda p, hits: p.act(LATER, guidance="Cool the apple 1 with the fridge 1."),
    "act_self_reasoning": lambda p, hits: p.act(LATER, guidance=""),
    "act_replay": lambda p, hits: p.act(LATER, guidance="", hits=with_roles(hits)),
    "reconstruct_start": lambda p, hits: p.reconstruct(START, hits),
    "reconstruct_later": lambda p, hits: p.reconstruct(LATER, with_roles(hits)),
    "distill_ended": lambda p, hits: p.distill(episode(), 1),
    "distill_cut_off": lambda p, hits: p.distill(replace(episode(), truncated=True, won=False), 2),
}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", RENDERINGS)
def test_rendering_is_the_golden_file(preset, name, make_prompts, hits):
    rendered = RENDERINGS[name](make_prompts(preset), hits)
    text = "".join(f"### {message['role']}\n{message['content']}\n" for message in rendered.messages)
    path = GOLDEN / f"{preset}_{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert not rendered.shortened


def test_no_golden_file_is_left_over():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {f"{p}_{name}" for p in PRESETS for name in RENDERINGS}


def shared(a, b) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def test_prompts_of_one_step_share_all_but_their_ends(make_prompts, hits):
    prompts = make_prompts("full")
    ask = prompts.act(LATER, offer_memory=True).ids
    guided = prompts.act(LATER, guidance="Cool it.").ids
    rewrite = prompts.reconstruct(LATER, hits).ids
    assert shared(ask, guided) > 0.85 * len(ask)
    assert shared(ask, rewrite) > 0.8 * len(ask)


def test_the_system_prompt_never_changes_and_comes_first(make_prompts, hits):
    prompts = make_prompts("full")
    systems = {render(prompts, hits).messages[0]["content"] for render in RENDERINGS.values()}
    assert len(systems) == 1


def test_only_an_offering_prompt_says_how_to_ask(make_prompts, hits):
    for name, render in RENDERINGS.items():
        user = render(make_prompts("full"), hits).messages[-1]["content"]
        assert ("<retrieve_memory>" in user) == name.startswith("act_or_ask"), name


def test_the_task_text_survives_whatever_it_holds(make_prompts, hits):
    goal = 'Find me size 5.5 shoes, price lower than 50.00 {dollars}\nin "red". Your task is to: none.'
    for preset in PRESETS:
        prompts = make_prompts(preset)
        for rendered in (
            prompts.act(replace(LATER, goal=goal)),
            prompts.reconstruct(replace(LATER, goal=goal), hits),
            prompts.distill(replace(episode(), goal=goal), 1),
        ):
            assert goal in rendered.messages[-1]["content"]


def test_the_outcome_is_not_told_to_the_distiller(make_prompts):
    prompts = make_prompts("full")
    assert prompts.distill(episode(), 1).ids == prompts.distill(replace(episode(), won=False, score=0.0), 1).ids


def test_compact_act_prompts_are_short(make_prompts):
    assert len(make_prompts("compact").act(LATER, offer_memory=True).ids) < 70


def test_compact_shows_the_room_at_step_0_and_in_every_reconstruct_prompt(make_prompts, hits):
    prompts = make_prompts("compact")
    assert ROOM in prompts.act(START).messages[-1]["content"]
    assert ROOM not in prompts.act(replace(LATER, steps=STEPS[:2])).messages[-1]["content"]
    for now in (START, LATER):
        assert ROOM in prompts.reconstruct(now, hits).messages[-1]["content"]


def test_the_history_window_is_w_pairs(make_prompts):
    text = make_prompts("full", history=2).act(LATER).messages[-1]["content"]
    assert "take apple 1" not in text and "(no readable action)" in text and "Steps taken: 4" in text


def test_the_oldest_history_goes_first(make_prompts):
    whole = len(make_prompts("full").act(LATER).ids)
    rendered = make_prompts("full", prompt_tokens=whole - 1).act(LATER)
    text = rendered.messages[-1]["content"]
    assert rendered.shortened and len(rendered.ids) < whole
    assert "take apple 1" not in text and "Action: go to fridge 1" in text


def test_then_the_middle_of_the_observation(make_prompts):
    page = "HEAD " + " ".join(f"item{i}" for i in range(400)) + " TAIL"
    rendered = make_prompts("full", prompt_tokens=500).act(replace(LATER, observation=page))
    text = rendered.messages[-1]["content"]
    assert rendered.shortened and 490 <= len(rendered.ids) <= 500
    assert all(kept in text for kept in ("HEAD", "TAIL", LATER.goal, "open fridge 1\ncool apple 1 with fridge 1"))
    assert "Action: go to fridge 1" not in text


def test_long_source_states_are_cut_like_the_observation(make_prompts):
    long = MemoryHit("m1", "Keep the memory text.", "OLD " + "word " * 2000)
    rendered = make_prompts("full", prompt_tokens=600).reconstruct(LATER, [long])
    assert rendered.shortened and len(rendered.ids) <= 600
    assert "OLD" in rendered.messages[-1]["content"] and "Keep the memory text." in rendered.messages[-1]["content"]


def test_a_prompt_that_cannot_fit_is_cut_in_the_middle_and_keeps_its_ends(make_prompts, codec):
    rendered = make_prompts("compact", prompt_tokens=20).act(replace(LATER, goal="word " * 100))
    assert rendered.shortened and len(rendered.ids) == 20
    assert codec.decode(rendered.ids).startswith("<user> task") and codec.decode(rendered.ids).endswith(
        "act <assistant>"
    )


def test_a_long_episode_keeps_its_head_and_tail_for_distillation(make_prompts):
    steps = [Step(f"Place {i} with nothing in it.", ACTIONS, f"go to place {i + 1}") for i in range(50)]
    rendered = make_prompts("full").distill(replace(episode(), steps=steps), 1, limit=520)
    text = rendered.messages[-1]["content"]
    assert rendered.shortened and 490 <= len(rendered.ids) <= 520
    assert all(
        kept in text for kept in ("Place 0 ", "Place 49 ", "steps left out)", "after 50 steps", "You cool the apple 1.")
    )
    assert "Place 25 " not in text


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(max_size=400),
    st.text(max_size=400),
    st.lists(st.text(max_size=30), max_size=5),
    st.integers(8, 400),
    st.sampled_from(sorted(PRESETS)),
)
def test_any_text_renders_within_any_limit(make_prompts, hits, goal, observation, admissible, limit, preset):
    prompts = make_prompts(preset, prompt_tokens=limit)
    now = Situation(goal, STEPS, observation, admissible)
    odd = [replace(hit, memory=observation, source_state=goal * 3) for hit in hits]
    for rendered in (
        prompts.act(now, guidance=goal),
        prompts.act(now, hits=odd),
        prompts.reconstruct(now, odd),
        prompts.distill(episode(), 1),
    ):
        assert len(rendered.ids) <= limit
        if not rendered.shortened:
            assert goal in rendered.messages[-1]["content"] or "cool an apple." in rendered.messages[-1]["content"]


def test_the_head_of_the_observation_is_never_shorter_than_promised(make_prompts):
    page = "x" * 5000
    text = make_prompts("compact", prompt_tokens=8).act(replace(START, observation=page)).messages[-1]["content"]
    head, tail = text.split("now ")[1].split("\n")[0].split(" ... ")
    assert (len(head), len(tail)) == (LEAST_TEXT * 2 // 3, LEAST_TEXT - LEAST_TEXT * 2 // 3)


def test_an_episode_cut_to_one_step_keeps_the_first(make_prompts):
    whole = make_prompts("compact").distill(replace(episode(), steps=list(STEPS[:2])), 1)
    text = make_prompts("compact").distill(replace(episode(), steps=list(STEPS[:2])), 1, limit=len(whole.ids) - 1)
    assert text.shortened and f"saw {ROOM}" in text.messages[-1]["content"]
