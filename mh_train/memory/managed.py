"""A bank that a model manages: for every new memory it says what becomes of it and of those it resembles.

Why: Mem0 (add, update, delete) and ExpeL (add, edit, agree, remove, with votes) let a model decide what MemGuard leaves
to descriptors; here both are one operation list over the same bank, journalled like everything else.
Invariants: an operation names a record that the model was shown, or it is ignored and counted; an answer that cannot be
read adds the memory as it is; nothing is ever deleted, archived is a state. ExpeL's votes are the record's `quality` in
tenths: a new insight has two, one without votes is archived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mh_train.config.schema import Manager
from mh_train.engine.base import Message, noise_key
from mh_train.memory.bank import Bank, add_event
from mh_train.memory.distill import json_values
from mh_train.memory.journal import Event, pack_vector
from mh_train.memory.judge import Judge, JudgeRequest
from mh_train.memory.records import Record, clean_text

ACTOR = "curate"
SHOWN = 10
"""Known memories that the model sees beside a new one."""
MOST_TEXT = 300
MAX_TOKENS = 256
FIRST_VOTES = 0.2
VOTE = 0.1
OPERATIONS = {
    Manager.mem0: """"add": the new memory says something that no known one says.
"update" (id, text): a known memory is replaced by `text`, which joins it with the new one.
"delete" (id): the new memory shows that a known one is wrong.
An empty list: the new memory adds nothing.""",
    Manager.expel: """"add" (text): a new insight, general enough for other tasks.
"edit" (id, text): a known insight is worded better or wider as `text`.
"agree" (id): the new memory supports a known insight.
"remove" (id): the new memory speaks against a known insight, or another one says the same.
An empty list: nothing changes.""",
}
ASK = """You keep the memory of an agent in good order. Known memories:
{known}
New memory: {new}
Decide what to do. Operations:
{operations}
Answer with one JSON object and nothing else: {{"operations": [{{"op": "...", "id": "...", "text": "..."}}]}}"""


async def manage(
    bank: Bank, records: Sequence[Record], manager: Manager, judge: Judge, seed: int, update: int
) -> tuple[list[str], dict[str, float]]:
    """Apply what the model decides about each record, in order; the ids that were added, and counts.

    All decisions of an update are made against the bank as it was before it."""
    counts = dict.fromkeys(("added", "duplicates", "managed_edits", "managed_removals", "managed_ignored"), 0)
    counts["manage_unparsed"] = 0
    requests = [_request(bank, record, manager, seed, update) for record in records]
    new: list[str] = []
    for record, answer in zip(records, await judge.ask(requests) if requests else [], strict=True):
        operations = parse_operations(answer.text)
        if operations is None:
            counts["manage_unparsed"] += 1
            operations = [{"op": "add"}]
        if record.id in bank.records or not operations:
            counts["duplicates"] += 1
            continue
        for operation in operations:
            done = _apply(bank, record, operation, manager, update)
            counts[done] += 1
            if done == "added":
                new.append(record.id)
    return new, {f"memory/{name}": float(value) for name, value in counts.items()}


def parse_operations(text: str) -> list[dict[str, str]] | None:
    """The operations of an answer as texts by name; None when there is no such list. Never raises."""
    for value in json_values(text):
        listed = value.get("operations") if isinstance(value, dict) else None
        if isinstance(listed, list):
            return [{str(k): clean_text(str(v)) for k, v in one.items()} for one in listed if isinstance(one, dict)]
    return None


def _request(bank: Bank, record: Record, manager: Manager, seed: int, update: int) -> JudgeRequest:
    known = "\n".join(f"[{other.id}] {other.content[:MOST_TEXT]}" for other in nearest(bank, record)) or "(none)"
    told = ASK.format(known=known, new=record.content[:MOST_TEXT], operations=OPERATIONS[manager])
    key = noise_key(seed, update, record.id, "manage")
    return JudgeRequest("induce", [Message(role="user", content=told)], key, 0.0, MAX_TOKENS)


def nearest(bank: Bank, record: Record) -> list[Record]:
    """The `SHOWN` live records of the same environment that are most like this one, ties by id."""
    live = sorted((r for r in bank.records.values() if r.retrievable and r.env == record.env), key=lambda r: r.id)
    if not live:
        return []
    [vector] = bank.embedder.encode([record.key_text()])
    cosines = np.round(np.array([bank.state.vectors[r.id] for r in live]) @ vector, 6)
    return [live[i] for i in np.argsort(-cosines, kind="stable")[:SHOWN]]


def _apply(bank: Bank, record: Record, operation: Mapping[str, str], manager: Manager, update: int) -> str:
    """Do one operation; the count that it belongs to."""
    op, text = operation.get("op", "").lower(), operation.get("text", "")
    if op == "add" and record.id not in bank.records:
        votes = FIRST_VOTES if manager is Manager.expel else record.quality
        made = replace(record, content=text or record.content, quality=votes)
        bank.apply([add_event(made, bank.embedder.encode([made.key_text()])[0], update, ACTOR, record.reason)])
        return "added"
    target = bank.records.get(operation.get("id", ""))
    if target is None or not target.retrievable or target.env != record.env:
        return "managed_ignored"
    if op in ("update", "edit") and text:
        made = replace(target, content=text)
        data = {"fields": {"content": text}, "vector": pack_vector(bank.embedder.encode([made.key_text()])[0])}
        bank.apply([_event("revise", target, update, f"{op} by the model after {record.id}", data)])
        return "managed_edits"
    if op == "agree" or (op == "remove" and target.quality - VOTE > 1e-9):
        votes = round(min(1.0, target.quality + (VOTE if op == "agree" else -VOTE)), 6)
        bank.apply([_event("revise", target, update, f"{op} after {record.id}", {"fields": {"quality": votes}})])
        return "managed_edits"
    if op in ("delete", "remove") and not target.pinned:
        bank.apply([_event("archive", target, update, f"{op} by the model after {record.id}", {})])
        return "managed_removals"
    return "managed_ignored"


def _event(kind: Any, target: Record, update: int, reason: str, data: Mapping[str, Any]) -> Event:
    return Event(kind, target.id, update, ACTOR, reason, data)
