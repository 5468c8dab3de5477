"""Evaluated episodes for the report: numbers and short stories of all, whole stories of as many tasks as fit.

Why: a comparison of modes is understood by opening two episodes of one task. Invariants: every mode, policy and seed
shows the same tasks in full, the first ones of each panel; runs evaluated before trajectories were kept show what
their rows hold: actions, queries, reconstructions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from mh_train.report.episodes import OUTCOMES, Row, read_episodes, spoken, story
from mh_train.report.html import pack
from mh_train.report.source import Cell
from mh_train.report.text import clip, number

SAMPLE = 8
"""Tasks of a cell that are packed to learn how much room one takes."""


def cell_rows(cell: Cell) -> list[Row]:
    """Index rows of an evaluated cell; their ids say where they were played."""
    rows = []
    for place, row in enumerate(cell.rows):
        rows.append(
            {
                **{
                    name: number(row.get(name, 0))
                    for name in ("steps", "turns", "malformed", "inadmissible", *OUTCOMES)
                },
                "id": cell_id(cell, place),
                "update": None,
                "group": None,
                "episode": place,
                "split": cell.panel,
                "task": str(row.get("task", "")),
                "type": str(row.get("type", "")),
                "won": int((number(row.get("success")) or 0) >= 1),
                "reward": number(row.get("reward")),
                "advantage": None,
                "truncated": int(number(row.get("truncated")) or 0),
                "tokens": number(row.get("completion_tokens", 0)),
                "asked": [[a.get("step", 0), a.get("outcome", ""), a.get("records", [])] for a in row.get("asked", [])],
            }
        )
    return rows


def cell_pages(cells: Sequence[Cell], vocabulary: Mapping[int, str], room: float) -> tuple[list[str], int]:
    """A packed page per cell within `room` characters, and of how many tasks of each panel they hold whole stories."""
    if not any(cell.trajectories.is_file() for cell in cells):
        return [pack(cell_page(cell, vocabulary, 0)) for cell in cells], 0
    short = sum(len(pack(cell_page(cell, vocabulary, 0))) for cell in cells)
    sample = sum(len(pack(cell_page(cell, vocabulary, SAMPLE))) for cell in cells)
    most = max(len(cell.rows) for cell in cells)
    tasks = min(most, int(max(room - short, 0) / max(sample - short, 1) * SAMPLE))
    return [pack(cell_page(cell, vocabulary, tasks)) for cell in cells], tasks


def cell_page(cell: Cell, vocabulary: Mapping[int, str], tasks: int) -> dict[str, Any]:
    """The stories of a cell's episodes: whole ones of the first `tasks` whose trajectory is on disk, short ones of the
    others."""
    strings: dict[str, int] = {}
    found: Iterable[tuple[str, dict[str, Any]]] = ()
    if cell.trajectories.is_file():
        found = read_episodes(cell.trajectories, lambda episode: (str(episode["task_id"]), story(episode, strings)))
    whole = dict(islice(found, tasks))
    episodes = {
        cell_id(cell, place): whole.get(str(row.get("task", ""))) or _short(row) for place, row in enumerate(cell.rows)
    }
    return {"episodes": episodes, "strings": list(strings), "vocabulary": spoken(episodes.values(), vocabulary)}


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "actions": [clip(action) for action in row.get("actions", [])],
        "asked": [
            {**asked, "query": clip(asked.get("query", "")), "guidance": clip(asked.get("guidance", ""))}
            for asked in row.get("asked", [])
        ],
        "dropped": bool(row.get("dropped", False)),
    }


def cell_id(cell: Cell, place: int) -> str:
    """The name of an evaluated episode."""
    return f"{cell.policy}:{cell.panel}:{cell.mode}:s{cell.seed}:{place}"
