"""A bank for the report: its records, where they lie, who is like whom, and everything that happened to them.

Why: a memory that misleads an agent must be found and traced to where it was learnt and what it did. Invariants: plain
data in, plain data out; when a bank holds more records than a report can carry, those that can be retrieved come first
and the report says how many are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from mh_train.report.text import clip, number

MOST_RECORDS = 3000
MOST_EVENTS = 20_000
NEIGHBOURS = 5
RETRIEVABLE = ("active", "summary")
USE_COUNTS = ("c_use", "c_succ", "accepted", "rejected")
Event = Mapping[str, Any]


def bank_data(
    records: Sequence[Mapping[str, Any]], vectors: Mapping[str, np.ndarray], events: Sequence[Event]
) -> dict[str, Any]:
    """Records (`Record.to_json`) with map coordinates and neighbours, uses per update, and all other events.

    `vectors` (d,) by id; `events` as the journal holds them, oldest first.
    """
    ordered = sorted(records, key=lambda r: (r["state"] not in RETRIEVABLE, -utility(r), r["id"]))
    kept = ordered[:MOST_RECORDS]
    known = {record["id"]: place for place, record in enumerate(kept)}
    matrix = unit_rows([vectors[record["id"]] for record in kept])
    points = principal_plane(matrix)
    return {
        "records": [
            {
                **_clipped(record),
                "utility": number(utility(record), 4),
                "x": number(float(x), 3),
                "y": number(float(y), 3),
            }
            for record, (x, y) in zip(kept, points, strict=True)
        ],
        "near": neighbours(matrix),
        "left_out": len(ordered) - len(kept),
        "uses": [
            [known[e["id"]], e["update"], *(e["data"].get(name, 0) for name in USE_COUNTS)]
            for e in events
            if e["kind"] == "use" and e["id"] in known
        ],
        "events": [_event(e) for e in events if e["kind"] not in ("use", "add")][-MOST_EVENTS:],
        "composition": composition(events),
    }


def utility(record: Mapping[str, Any]) -> float:
    """s = (c_succ + 1) / (c_use + 2)."""
    usage = record.get("usage", {})
    return float((usage.get("c_succ", 0) + 1) / (usage.get("c_use", 0) + 2))


def composition(events: Sequence[Event]) -> list[dict[str, Any]]:
    """After every update: how many records are in each state, how many retrievable ones are of each type, and how many
    events of each kind the update had."""
    state: dict[str, str] = {}
    kind: dict[str, str] = {}
    shown = []
    for update, block in groupby(events, key=lambda event: event["update"]):
        happened: Counter[str] = Counter()
        for event in block:
            happened[event["kind"]] += 1
            _follow(event, state, kind)
        live = Counter(kind[name] for name, now in state.items() if now in RETRIEVABLE)
        shown.append({"update": update, "states": Counter(state.values()), "types": live, "events": happened})
    return shown


def _follow(event: Event, state: dict[str, str], kind: dict[str, str]) -> None:
    name, data = event["id"], event["data"]
    if event["kind"] == "add":
        state[name], kind[name] = data["record"]["state"], data["record"]["type"]
    elif event["kind"] == "state":
        state[name] = data["state"]
    elif event["kind"] in ("prune", "archive"):
        state[name] = "archived"
    elif event["kind"] == "merge":
        state[data["other"]] = "archived"
    elif event["kind"] == "revise":
        state[name] = data["fields"].get("state", state[name])


def unit_rows(vectors: Sequence[np.ndarray]) -> np.ndarray:
    """(n, d) float32 rows of length 1; a zero vector stays zero."""
    if not vectors:
        return np.zeros((0, 1), np.float32)
    matrix = np.stack(vectors).astype(np.float32)
    return matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)


def principal_plane(matrix: np.ndarray) -> np.ndarray:
    """(n, d) -> (n, 2): the projection on the two directions of largest spread; signs fixed so that equal banks give
    equal maps."""
    if len(matrix) < 3 or matrix.shape[1] < 2:
        return np.zeros((len(matrix), 2))
    centred = matrix - matrix.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T.astype(np.float64) @ centred)
    plane = axes[:, [-1, -2]]
    signs = np.sign(plane[np.abs(plane).argmax(axis=0), [0, 1]])
    return centred @ (plane * signs)


def neighbours(matrix: np.ndarray, most: int = NEIGHBOURS) -> list[list[list[float]]]:
    """For every row its nearest others as [row, cosine], best first, ties to the smaller row."""
    found = []
    for start in range(0, len(matrix), 512):
        cosines = matrix[start : start + 512] @ matrix.T
        for place, row in enumerate(cosines):
            row[start + place] = -2.0
            order = np.argsort(-row, kind="stable")[:most]
            found.append([[int(i), number(float(row[i]), 3)] for i in order if row[i] > -2.0])
    return found  # type: ignore[return-value]


def _clipped(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: clip(value) if isinstance(value, str) else value for name, value in record.items()}


def _event(event: Event) -> dict[str, Any]:
    """An event without vectors and whole records; a revision keeps the names of the fields that changed."""
    data = {name: value for name, value in event["data"].items() if name not in ("vector", "record", "fields")}
    if "fields" in event["data"]:
        data["changed"] = sorted(event["data"]["fields"])
    texts = {name: clip(value, 2000) if isinstance(value, str) else value for name, value in data.items()}
    return {**{name: event[name] for name in ("kind", "id", "update", "actor", "reason")}, "data": texts}
