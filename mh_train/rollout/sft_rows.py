"""Cold-start rows: a prompt, the completion to learn, and the JSON lines they are kept in (SPEC 6).

Why: our own expert, a user's chat logs and AgentGym dumps end as the same rows.
Invariants: a row's completion ends with the model's end id; a line that cannot be read is named by its number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mh_train.engine.base import Codec, Message
from mh_train.files import write_jsonl
from mh_train.rollout.panels import RolloutError


@dataclass(frozen=True)
class SftRow:
    """One turn to learn: ids of prompt (p,) and completion (c,), and the texts that they encode, for the reader."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    kind: str
    messages: tuple[Message, ...]
    completion: str


def sft_row(
    codec: Codec, kind: str, messages: Sequence[Message], completion: str, prompt_ids: Sequence[int] | None = None
) -> SftRow:
    """Encode a row; `prompt_ids` when the prompt was rendered already."""
    prompt = codec.encode(messages) if prompt_ids is None else prompt_ids
    ids = [*codec.encode_text(completion), *codec.end_ids()[:1]]
    return SftRow(tuple(prompt), tuple(ids), kind, tuple(messages), completion)


def write_rows(path: Path, rows: Sequence[SftRow]) -> None:
    """Replace `path` by one JSON line per row: `kind`, `messages` (completion last), then the ids."""
    write_jsonl(path, map(_to_json, rows))


def read_rows(path: Path, codec: Codec) -> list[SftRow]:
    """Rows of a JSONL file: our own, or a user's. Raises `RolloutError` naming the first line that cannot be used.

    A user's line is `{"messages": [{"role", "content"}, ...]}` or AgentGym's `{"conversations": [{"from", "value"},
    ...]}` (one row per assistant turn; `"loss": false` leaves it out), or `{"prompt": ..., "completion": ...}` with
    texts or messages.
    """
    rows: list[SftRow] = []
    if not path.is_file():
        raise RolloutError(f"There is no file {path}; correct sft.data, or leave it empty for the expert's rows.")
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                rows += _from_json(json.loads(line), codec)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise RolloutError(
                    f"{path} line {number} is no cold-start row ({type(error).__name__}: {error}); docs/data.md shows "
                    "the formats."
                ) from error
    if not rows:
        raise RolloutError(f"{path} holds no cold-start row; docs/data.md shows the formats.")
    return rows


def _to_json(row: SftRow) -> dict[str, Any]:
    answer = Message(role="assistant", content=row.completion)
    ids = {"prompt_ids": row.prompt_ids, "completion_ids": row.completion_ids}
    return {"kind": row.kind, "messages": [*row.messages, answer], **ids}


def _from_json(value: Mapping[str, Any], codec: Codec) -> Iterator[SftRow]:
    kind = str(value.get("kind", "act"))
    if "prompt_ids" in value:
        *messages, answer = value["messages"]
        prompt, completion = tuple(value["prompt_ids"]), tuple(value["completion_ids"])
        yield SftRow(prompt, completion, kind, tuple(messages), answer["content"])
        return
    messages = _chat(value)
    for index, message in enumerate(messages):
        if message["role"] == "assistant" and message.get("loss") is not False:
            before = [Message(role=m["role"], content=m["content"]) for m in messages[:index]]
            yield sft_row(codec, kind, before, message["content"])


def _chat(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages of a user's line; raises `KeyError` or `ValueError` when it has none."""
    if "conversations" in value:
        roles = {"human": "user", "gpt": "assistant", "system": "system"}
        return [
            {"role": roles[m["from"]], "content": m["value"], "loss": m.get("loss")} for m in value["conversations"]
        ]
    if "prompt" in value:
        return [*_side(value["prompt"], "user"), *_side(value["completion"], "assistant")]
    messages = [dict(message) for message in value["messages"]]
    if not any(message["role"] == "assistant" for message in messages):
        raise ValueError("no assistant message")
    return messages


def _side(side: Any, role: str) -> list[dict[str, Any]]:
    return [{"role": role, "content": side}] if isinstance(side, str) else [dict(message) for message in side]
