"""What is written is what is read, for any text; a broken line is named."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mh_train.agent.types import MemoryHit, Retrieval, Step, Trajectory, Turn
from mh_train.rollout.panels import RolloutError
from mh_train.rollout.writer import from_json, read_trajectories, to_json, write_trajectories


def as_utf16(text: str) -> str:
    """JSON cannot tell two surrogates side by side from the character that they make: neither can this."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


text = st.text(st.characters(exclude_categories=()), max_size=20).map(as_utf16)
number = st.floats(allow_nan=False)
ids = st.lists(st.integers(0, 200_000), max_size=5).map(tuple)
flag = st.booleans()
turns = st.builds(
    Turn,
    st.sampled_from(["act", "reconstruct"]),
    st.integers(0, 50),
    ids,
    ids,
    st.lists(number, max_size=5).map(tuple),
    text,
    st.sampled_from(["stop", "length"]),
    flag,
    flag,
)
steps = st.builds(Step, text, st.lists(text, max_size=3).map(tuple), text, text, flag, flag, text)
hits = st.builds(MemoryHit, text, text, text, st.just("guard"), text, number, st.dictionaries(text, number, max_size=2))
retrievals = st.builds(
    Retrieval, st.integers(0, 9), text, st.lists(hits, max_size=2).map(tuple), st.just("empty"), text
)
trajectories = st.builds(
    Trajectory,
    *[text] * 6,
    group=st.integers(0, 99),
    episode=st.integers(0, 99),
    turns=st.lists(turns, max_size=2),
    steps=st.lists(steps, max_size=2),
    retrievals=st.lists(retrievals, max_size=2),
    final_observation=text,
    won=flag,
    score=number,
    truncated=flag,
    reward=number,
    reward_parts=st.dictionaries(text, number, max_size=2),
    shortened_prompts=st.integers(0, 3),
    extra=st.dictionaries(text, st.none() | flag | number | text, max_size=2),
)


@given(trajectories)
def test_json_gives_back_the_same_trajectory(trajectory):
    assert from_json(json.loads(json.dumps(to_json(trajectory)))) == trajectory


def example(number=0):
    turn = Turn("act", 0, (1, 2), (3, 4), (-0.1, -math.pi), "<think>a\u2028b</think>\r\n<action>look\ud800</action>")
    step = Step("You see\na desk.", ("look", "open desk"), "look", "look")
    return Trajectory(f"u00001-g000-e{number}", "toy", "train", "t", "fetch", "goal", 0, number, [turn], [step])


def test_a_file_holds_one_line_per_episode_and_reads_back(tmp_path):
    path = tmp_path / "deep" / "update-00001.jsonl"
    written = [example(0), example(1)]
    write_trajectories(path, written)
    assert read_trajectories(path) == written
    assert len(path.read_text(encoding="ascii").splitlines()) == 2
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_person_reads_the_text_first_and_the_token_ids_last(tmp_path):
    write_trajectories(tmp_path / "t.jsonl", [example()])
    line = json.loads((tmp_path / "t.jsonl").read_text())
    assert list(line)[:6] == ["id", "env", "split", "task_id", "task_type", "goal"]
    assert list(line)[-3:] == ["steps", "retrievals", "turns"]
    assert list(line["turns"][0])[-3:] == ["prompt_ids", "completion_ids", "logprobs"]


@pytest.mark.parametrize("broken", ['{"id": "u1"', '{"id": "u1"}', "[]", "3"])
def test_a_broken_line_is_named(tmp_path, broken):
    path = tmp_path / "t.jsonl"
    write_trajectories(path, [example()])
    path.write_text(path.read_text() + broken + "\n")
    with pytest.raises(RolloutError, match=r"t\.jsonl line 2 is not a trajectory"):
        read_trajectories(path)
