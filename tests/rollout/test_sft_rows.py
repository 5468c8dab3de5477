"""Cold-start rows: ours read back, users' chats and AgentGym dumps understood, broken lines named."""

import json

import pytest

from mh_train.engine.scripted import CharCodec
from mh_train.rollout.panels import RolloutError
from mh_train.rollout.sft_rows import read_rows, sft_row, write_rows

CODEC = CharCodec()
ASK = {"role": "user", "content": "where are you?"}
SAY = {"role": "assistant", "content": "in the hall"}


def read(tmp_path, *lines):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return read_rows(path, CODEC)


def texts(rows):
    return [(CODEC.decode(row.prompt_ids), CODEC.decode(row.completion_ids)) for row in rows]


def test_our_rows_read_back_and_show_their_text(tmp_path):
    rows = [sft_row(CODEC, "act", [ASK], "in the hall\ud800"), sft_row(CODEC, "distill", [ASK, SAY, ASK], "{}")]
    write_rows(tmp_path / "rows.jsonl", rows)
    assert read_rows(tmp_path / "rows.jsonl", CODEC) == rows
    line = json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[1])
    assert list(line) == ["kind", "messages", "prompt_ids", "completion_ids"]
    assert line["messages"] == [ASK, SAY, ASK, {"role": "assistant", "content": "{}"}]


def test_a_completion_ends_with_the_end_id_and_the_prompt_is_the_rendered_one():
    row = sft_row(CODEC, "act", [ASK], "ok", prompt_ids=[7, 8])
    assert row.prompt_ids == (7, 8)
    assert row.completion_ids == (*CODEC.encode_text("ok"), *CODEC.end_ids())


def test_every_assistant_turn_of_a_chat_is_a_row_on_what_came_before(tmp_path):
    rows = read(tmp_path, {"messages": [ASK, SAY, ASK, SAY]})
    assert texts(rows) == [
        ("user: where are you?\nassistant: ", "in the hall"),
        ("user: where are you?\nassistant: in the hall\nuser: where are you?\nassistant: ", "in the hall"),
    ]


def test_agentgym_lines_and_prompt_completion_lines_mean_the_same(tmp_path):
    gym = {
        "conversations": [
            {"from": "human", "value": "hi", "loss": None},
            {"from": "gpt", "value": "yes", "loss": False},
        ]
    }
    gym["conversations"] += [{"from": "human", "value": ASK["content"]}, {"from": "gpt", "value": "hall", "loss": True}]
    (row,) = read(tmp_path, gym)
    assert texts([row]) == [("user: hi\nassistant: yes\nuser: where are you?\nassistant: ", "hall")]
    as_text, as_chat = read(
        tmp_path,
        {"prompt": "where are you?", "completion": "here"},
        {"prompt": [ASK], "completion": [{**SAY, "content": "here"}]},
    )
    assert as_text == as_chat
    assert as_text.completion == "here"


@pytest.mark.parametrize(
    "line",
    [
        '{"messages": [',
        {"messages": []},
        {"messages": [ASK]},
        {"messages": "text"},
        {"conversations": [{"from": "bot"}]},
        [],
        3,
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path, line):
    with pytest.raises(RolloutError, match=r"rows\.jsonl line 2 is no cold-start row"):
        read(tmp_path, {"messages": [ASK, SAY]}, line)


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(RolloutError, match="holds no cold-start row"):
        read(tmp_path)
