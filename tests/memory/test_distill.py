"""Which episodes are distilled, and how answers are read."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_parts import Counting, PlainPrompts, Writer, entry, trajectory

from mh_train.config.schema import DistillConfig
from mh_train.memory.distill import choose as choose_among
from mh_train.memory.distill import distill, make_record, parse_memories, source_step

SHELF = [("go left", "look left")]


def choose(episodes, config, seed, update):
    return choose_among(episodes, {t.id: t.won for t in episodes}, config, seed, update)


def run(trajectories, answer, **config):
    writer, engine = Writer(answer), Counting()
    settings = DistillConfig(**config)
    chosen = choose(trajectories, settings, 0, 4)
    found, metrics = asyncio.run(distill(chosen, writer, engine, PlainPrompts(), settings, seed=0, update=4, run="r"))
    records = [record for _, record in found]
    return records, metrics, writer, engine


@pytest.mark.parametrize(
    ("won", "lost", "expected"), [(8, 8, (4, 4)), (2, 14, (2, 6)), (16, 0, (8, 0)), (0, 16, (0, 8)), (5, 11, (4, 4))]
)
def test_half_is_kept_and_balanced_as_far_as_possible(won, lost, expected):
    episodes = [trajectory(f"w{i}") for i in range(won)] + [trajectory(f"l{i}", won=False) for i in range(lost)]
    kept = choose(episodes, DistillConfig(), seed=1, update=0)
    assert (sum(t.won for t in kept), sum(not t.won for t in kept)) == expected
    assert [t.id for t in kept] == [t.id for t in episodes if t in kept]


def test_half_of_single_episodes_is_half_of_them():
    kept = [choose([trajectory("w")], DistillConfig(), seed=1, update=update) for update in range(200)]
    assert 80 < sum(map(len, kept)) < 120
    assert {len(choose([trajectory(name) for name in "abc"], DistillConfig(), 1, update)) for update in range(20)} == {
        1,
        2,
    }


def test_the_choice_is_seeded():
    episodes = [trajectory(f"w{i}", won=i % 2 == 0) for i in range(40)]
    first = choose(episodes, DistillConfig(), seed=1, update=0)
    assert choose(episodes, DistillConfig(), seed=1, update=0) == first
    assert choose(episodes, DistillConfig(), seed=1, update=1) != first


def test_short_episodes_are_left_out():
    episodes = [trajectory("short"), trajectory("long", observations=["a", "b", "c"])]
    assert [t.id for t in choose(episodes, DistillConfig(fraction=1, min_steps=2), 0, 0)] == ["long"]


@pytest.mark.parametrize(
    "text",
    [
        entry(*SHELF[0]),
        f"```json\n{entry(*SHELF[0])}\n```",
        f"Here it is: {entry(*SHELF[0])} I hope {{this}} helps.",
        json.dumps({"answer": json.loads(entry(*SHELF[0]))}),
        json.dumps([{"situation": "go left", "memory": "look left"}]),
        json.dumps({"situation": "go left", "memory": "look left"}),
        '[1, 2] {"memories": [{"situation": "go left", "memory": "look left"}]',
        '{"memories": [{"situation": "go left", "memory": "look left"}, {"situation": "cut o',
    ],
)
def test_an_answer_is_read_wherever_it_stands(text):
    assert parse_memories(text) == SHELF


@pytest.mark.parametrize(
    "text",
    ["", "nothing", "{}", '{"memories": [{"situation": "s"}]}', '{"memories": [{"memory": 3}]}', "[]", "{" * 5000],
)
def test_what_cannot_be_read_is_none(text):
    assert parse_memories(text) is None


def test_an_empty_list_declines():
    assert parse_memories('{"memories": []}') == []


@settings(deadline=None)
@given(st.text() | st.from_regex(r'[\[\]{}":,a-z ]*("situation"|"memory"|"memories")?[\[\]{}":,a-z\\ ]*'))
def test_parsing_never_raises(text):
    entries = parse_memories(text)
    assert entries is None or all(memory.strip() for _, memory in entries)


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["memories", "memory", "situation", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(JSON)
def test_any_json_is_read_without_raising(value):
    entries = parse_memories(json.dumps(value))
    assert entries is None or all(isinstance(s, str) and isinstance(m, str) for s, m in entries)


def test_the_source_step_shares_most_words_and_is_the_earliest():
    episode = trajectory("t", observations=["a fridge", "the bread in the drawer", "the drawer, bread", "a sink"])
    assert source_step("bread seen in a drawer", episode) == 1
    assert source_step("bread drawer", episode) == 1
    assert source_step("zebra", episode) == 0


def test_a_record_keeps_its_real_source_and_origin():
    episode = trajectory("t7", observations=["a fridge", "bread in drawer 1"])
    record = make_record(episode, "bread is wanted", "take bread from drawer 1", 3, "r")
    assert record.source_state == "bread in drawer 1"
    assert record.situation == "bread is wanted" and record.content == "take bread from drawer 1"
    assert record.provenance[0].__dict__ == {"run": "r", "update": 3, "task": "task-t7", "trajectory": "t7", "step": 1}
    assert record == make_record(episode, "bread is wanted", "take bread from drawer 1", 3, "r")
    assert record.id != make_record(trajectory("t8"), "bread is wanted", "take bread from drawer 1", 3, "r").id


def test_one_turn_per_kept_episode_and_the_engine_knows_who_waits():
    episodes = [trajectory(f"e{i}", won=i % 2 == 0) for i in range(8)]
    records, metrics, writer, engine = run(episodes, lambda turn: entry("a room", f"memory {turn.noise}"))
    assert len(records) == len(writer.asked) == 4 and metrics["memory/distill_requests"] == 4
    assert len({turn.noise for turn in writer.asked}) == 4 and {turn.kind for turn in writer.asked} == {"distill"}
    assert {turn.sampling.temperature for turn in writer.asked} == {0.6}
    assert engine.expected == [4, 3, 2, 1, 0]


def test_bad_answers_are_counted_and_leave_no_record():
    answers = iter(
        ["no json", entry("s", "<action>open</action>"), entry("s", "<EMPTY>"), '{"memories": []}', entry("s", "good")]
    )
    records, metrics, _, _ = run([trajectory(f"e{i}") for i in range(5)], lambda _: next(answers), fraction=1)
    assert [r.content for r in records] == ["good"]
    counts = {name: metrics[f"memory/distill_{name}"] for name in ("unparsed", "tagged", "empty")}
    assert counts == {"unparsed": 1, "tagged": 2, "empty": 1}


def test_at_most_per_trajectory_memories_are_taken():
    text = json.dumps({"memories": [{"situation": "s", "memory": f"m{i}"} for i in range(3)]})
    records, _, _, _ = run([trajectory("e")], lambda _: text, fraction=1, per_trajectory=2)
    assert [r.content for r in records] == ["m0", "m1"]


@pytest.mark.parametrize(
    ("memory", "kept"),
    [("cup was in drawer 2", 1), ("cup was in shelf 1", 0), ("shelf 1 is open", 1), ("look everywhere", 1)],
)
def test_a_grounded_memory_names_things_that_one_step_shows_together(memory, kept):
    seen = ["You see a drawer 2 and a shelf 1.", "On the drawer 2, you see a cup 1."]
    records, metrics, _, _ = run(
        [trajectory("t", observations=seen)], lambda turn: entry("room", memory), fraction=1, grounded=True
    )
    assert (len(records), metrics["memory/distill_ungrounded"]) == (kept, 1 - kept)
