"""R = outcome + 0.1 format; what the official release scored wrongly is scored right here."""

import asyncio

import pytest

from mh_train.agent.loop import run_episode
from mh_train.agent.reward import episode_numbers, is_english, score_trajectory
from mh_train.config.schema import RewardConfig

LOOK = "<think>see</think><action>look</action>"
WIN = "<think>cool it</think><action>go to fridge 1</action>"
ASK = "<think>unsure</think><retrieve_memory>where to cool</retrieve_memory>"
PRINCIPLE = "Cool it in the fridge 1."


@pytest.fixture
def score(kitchen, make_prompts, make_spec, script, shelf, hits):
    """Reward parts of an episode that says these lines."""

    def run(*lines, memory_available=True, config=None, **changes):
        spec = make_spec(max_retrievals=9, horizon=12, **changes)
        trajectory = asyncio.run(run_episode(spec, kitchen, script(lines), make_prompts(), shelf(hits)))
        reward = score_trajectory(trajectory, config or RewardConfig(), memory_available)
        assert reward == trajectory.reward
        return reward, trajectory.reward_parts

    return run


def test_asking_then_acting_scores_the_full_format_mark(score):
    reward, parts = score(ASK, PRINCIPLE, LOOK, WIN)
    assert parts == {"outcome": 10.0, "format": 1.0, "protocol": 1.0, "retrieval": 1.0, "english": 1.0}
    assert reward == pytest.approx(10.1)


def test_action_beside_a_query_does_not(score):
    _, parts = score(ASK, PRINCIPLE, LOOK, WIN.replace("<action>", "<retrieve_memory>x</retrieve_memory><action>"))
    assert parts["protocol"] == 0.0 and parts["format"] == pytest.approx(2 / 3)


def test_look_counts(score):
    assert score(ASK, PRINCIPLE, LOOK, LOOK, WIN)[1]["format"] == 1.0


def test_never_asking_loses_the_second_part_only_when_memory_can_be_used(score):
    assert score(WIN)[1]["format"] == pytest.approx(2 / 3)
    reward, parts = score(WIN, memory_available=False)
    assert "retrieval" not in parts and reward == pytest.approx(10.1)


def test_one_to_five_retrievals(score):
    cycle = (ASK, PRINCIPLE, LOOK)
    assert score(*cycle * 5, WIN)[1]["retrieval"] == 1.0
    assert score(*cycle * 6, WIN)[1]["retrieval"] == 0.0


@pytest.mark.parametrize(
    "answer, mark",
    [(PRINCIPLE, 1.0), ("<EMPTY>", 1.0), ("<EMPTY> because", 0.0), ("", 0.0), ("<think>x</think> Cool", 0.0)],
)
def test_a_reconstruction_is_a_clean_principle_or_exactly_empty(score, answer, mark):
    assert score(ASK, answer, WIN)[1]["protocol"] == mark


def test_a_query_where_none_is_offered_loses_the_protocol_part(score):
    assert score(ASK, PRINCIPLE, ASK, WIN)[1]["protocol"] == 0.0


def test_failure_keeps_only_the_format_reward(score):
    assert score(ASK, PRINCIPLE, LOOK)[0] == pytest.approx(0.1)


def test_a_partial_score_is_not_success(kitchen, make_prompts, make_spec, script, shelf, hits):
    trajectory = asyncio.run(
        run_episode(make_spec(), kitchen, script([ASK, PRINCIPLE, WIN]), make_prompts(), shelf(hits))
    )
    trajectory.won, trajectory.score = False, 0.75
    assert score_trajectory(trajectory, RewardConfig(), True) == pytest.approx(0.1)


def test_other_languages_cost_one_part_not_the_whole_mark(score):
    _, parts = score(ASK, "Kühle den Apfel.", "<think>冰箱</think><action>go to fridge 1</action>")
    assert parts["english"] == 0.0 and parts["format"] == pytest.approx(2 / 3)
    assert score(ASK, "Холодильник", WIN)[1]["english"] == 0.0
    assert "english" not in score(ASK, "冰箱", WIN, config=RewardConfig(english=False))[1]


@pytest.mark.parametrize(
    "text",
    [
        "打开冰箱",
        "холод",
        "れいぞうこ",
        "レイゾウコ",
        "ﾚｲ",
        "ثلاجة",
        "냉장고",
        "ψυγείο",
        "מקרר",
        "ตู้เย็น",
        "फ्रिज",
        "々",
        "ok 好",
    ],
)
def test_letters_of_other_scripts_are_not_english(text):
    assert not is_english(f"<think>{text}</think><action>look</action>")


@pytest.mark.parametrize(
    "text", ["Open the fridge!", "", "café, naïve, Ångström", "5.5 µm, 30 °C, €20 — “now” … 🙂 →", "ﬁt"]
)
def test_latin_text_signs_and_emoji_are(text):
    assert is_english(text)


def test_quoted_product_text_inside_an_action_is_not_judged():
    assert is_english("<think>the red one</think><action>click[红色 кот]</action>")
    assert not is_english("<think>the red one</think><retrieve_memory>红色</retrieve_memory>")
    assert not is_english("<action>click[红色]")


def test_an_external_reconstructor_is_not_judged(score):
    assert score(ASK, "<EMPTY> weil", WIN, use="external")[1]["format"] == 1.0
    assert score(ASK, "冰箱", WIN, use="external")[1]["format"] == 1.0


def test_weights_and_bounds_are_config(score):
    config = RewardConfig(success=1.0, format_weight=0.5, min_retrievals=0, max_retrievals=0)
    assert score(WIN, config=config)[0] == pytest.approx(1.5)


def test_turns_after_the_episode_do_not_count(kitchen, make_prompts, make_spec, script, shelf, hits):
    trajectory = asyncio.run(
        run_episode(make_spec(), kitchen, script([ASK, PRINCIPLE, WIN]), make_prompts(), shelf(hits))
    )
    distilled = trajectory.turns[0].__class__("distill", 1, (), (), (), "记忆", well_formed=False)
    trajectory.turns.append(distilled)
    assert score_trajectory(trajectory, RewardConfig(), True) == pytest.approx(10.1)


def test_the_numbers_of_an_episode(kitchen, make_prompts, make_spec, script, shelf, hits):
    lines = [ASK, PRINCIPLE, LOOK, ASK, "<EMPTY>", "<action>fly</action>", "gibberish", WIN]
    trajectory = asyncio.run(run_episode(make_spec(), kitchen, script(lines), make_prompts(), shelf(hits)))
    numbers = episode_numbers(trajectory)
    expected = {
        "success": 1,
        "score": 1,
        "steps": 4,
        "turns": 8,
        "malformed": 1,
        "inadmissible": 1,
        "retrievals": 2,
        "accepted": 1,
        "rejected": 1,
        "empty": 0,
        "replayed": 0,
        "truncated": 0,
        "shortened": 0,
    }
    assert {name: numbers[name] for name in expected} == expected
    assert numbers["completion_tokens"] == sum(len(line.split()) for line in lines)
