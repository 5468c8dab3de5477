"""Modes x panels x seeds -> `eval.json` and one JSONL of episodes per cell (SPEC 7).

Why: an evaluation that was killed continues with the cells it had not finished, and one that is run again on the same
policy, bank, panels and seeds writes the same bytes.
Invariants: the bank's digest is the same before and after every cell; a finished cell is reused only when everything
that decides its outcome is the same; `latency.jsonl` is the only file that holds times.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mh_train.agent.types import Trajectory
from mh_train.evaluate.modes import Mode
from mh_train.evaluate.results import Row, compare_modes, dropped_row, episode_row, summarise, task_values
from mh_train.evaluate.statistics import EvaluationError, TaskValues
from mh_train.files import write_atomic, write_jsonl

EVAL_FILE = "eval.json"
LATENCY_FILE = "latency.jsonl"


class PanelTask(Protocol):
    """A task of a panel."""

    @property
    def id(self) -> str:
        """Unique within the panel."""

    @property
    def type(self) -> str:
        """Its task type."""


class TaskPanel(Protocol):
    """A named, hashed, ordered list of tasks (`rollout.panels`)."""

    @property
    def name(self) -> str:
        """The split it is from, or a name of its own."""

    @property
    def hash(self) -> str:
        """Digest of the ordered task ids."""

    @property
    def tasks(self) -> Sequence[PanelTask]:
        """In panel order."""


@dataclass(frozen=True)
class Cell:
    """One run over a panel: a mode and a sampling seed."""

    mode: Mode
    panel: TaskPanel
    seed: int

    @property
    def file(self) -> str:
        """Name of its JSONL."""
        return f"{self.panel.name}.{self.mode.name}.{self.seed}.jsonl"


Play = Callable[[Cell], Awaitable[Sequence[Trajectory]]]
"""Plays one episode per task of a cell's panel; tasks whose environment failed for good are missing from the answer."""


async def evaluate(
    cells: Sequence[Cell],
    play: Play,
    folder: Path,
    about: Mapping[str, Any],
    bank_digest: Callable[[], str],
    on_cell: Callable[[Cell, Mapping[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Run the cells that `folder/cells` does not hold yet, then write and return `folder/eval.json`.

    `about` is everything else that decides the outcome (versions, policy digest, sampling, environment) and goes into
    the file. `on_cell` hears the summary of each cell. Raises `EvaluationError` on an empty panel or a changed bank.
    """
    digest = bank_digest()
    rows: dict[tuple[str, str], dict[int, list[Row]]] = {}
    for cell in cells:
        if not cell.panel.tasks:
            raise EvaluationError(f"Panel {cell.panel.name} has no tasks; make its data first (`mh-train data`).")
        identity = {**about, "bank": digest, "panel": cell.panel.hash, "seed": cell.seed, **_how(cell.mode)}
        path = folder / "cells" / cell.file
        found = _finished(path, identity)
        if found is None:
            started = time.perf_counter()
            trajectories = await play(cell)
            if bank_digest() != digest:
                raise EvaluationError("The bank changed during evaluation; give evaluation a read-only view of it.")
            found = _rows(cell, trajectories)
            write_jsonl(path, [identity, *found])
            _note_latency(folder / LATENCY_FILE, cell, trajectories, time.perf_counter() - started)
        rows.setdefault((cell.panel.name, cell.mode.name), {})[cell.seed] = found
        if on_cell is not None:
            on_cell(cell, summarise({cell.seed: found}))
    result = {**about, "bank": digest, **_result(cells, rows)}
    write_atomic(folder / EVAL_FILE, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return result


def read_values(folder: Path, panel: str, mode: str, metric: str = "success") -> TaskValues:
    """Per-task values of a finished evaluation, to compare two evaluations (for example before and after training)."""
    path = folder / EVAL_FILE
    result = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"results": {}}
    if mode not in result["results"].get(panel, {}):
        raise EvaluationError(f"{folder} holds no result of mode {mode} on panel {panel}; run `mh-train eval` first.")
    rows = {seed: _read(folder / "cells" / f"{panel}.{mode}.{seed}.jsonl")[1:] for seed in result["seeds"]}
    return task_values(rows, result["panels"][panel]["hash"], metric)


def _rows(cell: Cell, trajectories: Sequence[Trajectory]) -> list[Row]:
    played = {trajectory.task_id: episode_row(trajectory) for trajectory in trajectories}
    return [played.get(task.id) or dropped_row(task.id, task.type) for task in cell.panel.tasks]


def _finished(path: Path, identity: Mapping[str, Any]) -> list[Row] | None:
    """The rows of a finished cell, or None when there are none from exactly these settings."""
    if not path.is_file():
        return None
    head, *rows = _read(path)
    return rows if head == json.loads(json.dumps(identity)) else None


def _read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _note_latency(path: Path, cell: Cell, trajectories: Sequence[Trajectory], seconds: float) -> None:
    """Append how long a played cell took, in all and per episode."""
    mean = sum(trajectory.seconds for trajectory in trajectories) / max(1, len(trajectories))
    line = {"cell": cell.file, "seconds": seconds, "episodes": len(trajectories), "seconds_per_episode": mean}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _how(mode: Mode) -> dict[str, str]:
    return {"mode": mode.name, "use": mode.use.value, "trigger": mode.trigger.value}


def _result(cells: Sequence[Cell], rows: Mapping[tuple[str, str], Mapping[int, Sequence[Row]]]) -> dict[str, Any]:
    panels = {cell.panel.name: cell.panel for cell in cells}
    values: dict[str, dict[str, TaskValues]] = {}
    results: dict[str, dict[str, Any]] = {}
    for (panel, mode), found in rows.items():
        values.setdefault(panel, {})[mode] = task_values(found, panels[panel].hash)
        results.setdefault(panel, {})[mode] = summarise(found)
    return {
        "panels": {name: {"hash": panel.hash, "tasks": len(panel.tasks)} for name, panel in panels.items()},
        "modes": {cell.mode.name: _how(cell.mode) for cell in cells},
        "seeds": sorted({cell.seed for cell in cells}),
        "results": results,
        "comparisons": compare_modes(values, "success"),
    }
