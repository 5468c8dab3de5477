"""Modes x panels x seeds -> `eval.json`, one JSONL of episode rows and one of whole trajectories per cell (SPEC 7).

Why: an evaluation that was killed continues with the cells it had not finished, and one that is run again on the same
policy, bank, panels and seeds writes the same bytes.
Invariants: the bank's digest is the same before and after every cell; a finished cell is reused only when everything
that decides its outcome is the same; `latency.jsonl` is the only file that holds times.
Run: `mh-train eval`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from envs.pool import EnvPool
from mh_train.agent.prompts import Prompts
from mh_train.agent.types import MemoryReader, Trajectory
from mh_train.config.schema import RunConfig, Use
from mh_train.evaluate.modes import Mode, mode_of
from mh_train.evaluate.results import Row, compare_modes, dropped_row, episode_row, summarise, task_values
from mh_train.evaluate.statistics import EvaluationError, TaskValues
from mh_train.files import write_atomic, write_jsonl
from mh_train.memory.signature import entity_words
from mh_train.rollout.panels import Panel
from mh_train.rollout.play import RolloutResult, Voice, play
from mh_train.rollout.rules import evaluation_rules
from mh_train.rollout.writer import write_trajectories

EVAL_FILE = "eval.json"
LATENCY_FILE = "latency.jsonl"
FORMAT = 2
"""Of a cell's rows; cells of another format are played again."""


@dataclass(frozen=True)
class Cell:
    """One run over a panel: a mode and a sampling seed."""

    mode: Mode
    panel: Panel
    seed: int

    @property
    def file(self) -> str:
        """Name of its JSONL."""
        return f"{self.panel.name}.{self.mode.name}.{self.seed}.jsonl"


@dataclass(frozen=True)
class Parts:
    """What the cells are played with. `voice` sees each episode's spec, so that `use` external can go to another model;
    `sources` maps record ids to source states; `bank_digest` is asked before and after every cell."""

    pool: EnvPool
    prompts: Prompts
    voice: Voice
    reader: MemoryReader
    sources: Mapping[str, str]
    bank_digest: Callable[[], str]
    expect: Callable[[int], None] = lambda callers: None


async def evaluate(
    config: RunConfig,
    panels: Sequence[Panel],
    parts: Parts,
    folder: Path,
    about: Mapping[str, Any],
    on_cell: Callable[[Cell, Mapping[str, Any]], None] = lambda cell, summary: None,
) -> dict[str, Any]:
    """Play `evaluate.modes` x `evaluate.seeds` on the panels; write and return `folder/eval.json`.

    Cells that `folder/cells` already holds for the same settings are read, not played. `about` names what the config
    does not know and the outcome depends on (versions, digest of the policy). `on_cell` hears every cell's summary.
    Raises `EvaluationError` for unknown modes and for a bank that changed, `RolloutError` when nothing can be played.
    """
    bank = parts.bank_digest()
    known = {**about, "bank": bank, "settings": _settings(config)}
    modes = [mode_of(name, config.memory) for name in config.evaluate.modes]
    rows: dict[str, dict[str, dict[int, list[Row]]]] = {panel.name: {} for panel in panels}
    for cell in [Cell(mode, panel, seed) for panel in panels for seed in config.evaluate.seeds for mode in modes]:
        path = folder / "cells" / cell.file
        head = {"format": FORMAT, **_how(cell.mode), "panel": cell.panel.hash, "seed": cell.seed}
        head["digest"] = _digest(known)
        found = _finished(path, head)
        if found is None:
            played = await _play(config, cell, parts)
            if parts.bank_digest() != bank:
                raise EvaluationError("The bank changed during evaluation; give evaluation a read-only view of it.")
            found = _rows(cell, played)
            write_trajectories(folder / "trajectories" / cell.file, list(map(_for_readers, played.trajectories)))
            write_jsonl(path, [head, *found])
            _note_latency(folder / LATENCY_FILE, cell, played)
        rows[cell.panel.name].setdefault(cell.mode.name, {})[cell.seed] = found
        on_cell(cell, summarise({cell.seed: found}))
    result = {
        **known,
        "seeds": list(config.evaluate.seeds),
        "modes": {mode.name: _how(mode) for mode in modes},
        "panels": {panel.name: {"hash": panel.hash, "tasks": len(panel.tasks)} for panel in panels},
        "results": {panel: {mode: summarise(found) for mode, found in of.items()} for panel, of in rows.items()},
        "comparisons": compare_modes(
            {p.name: {mode: task_values(found, p.hash) for mode, found in rows[p.name].items()} for p in panels},
            "success",
        ),
    }
    write_atomic(folder / EVAL_FILE, json.dumps(result, indent=1, ensure_ascii=True) + "\n")
    return result


def read_values(folder: Path, panel: str, mode: str, metric: str = "success") -> TaskValues:
    """Per-task values of a finished evaluation, to compare two evaluations (for example before and after training)."""
    path = folder / EVAL_FILE
    result = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"results": {}}
    if mode not in result["results"].get(panel, {}):
        raise EvaluationError(f"{folder} holds no result of mode {mode} on panel {panel}; run `mh-train eval` first.")
    rows = {seed: _read(folder / "cells" / f"{panel}.{mode}.{seed}.jsonl")[1:] for seed in result["seeds"]}
    return task_values(rows, result["panels"][panel]["hash"], metric)


async def _play(config: RunConfig, cell: Cell, parts: Parts) -> RolloutResult:
    label = f"eval-{cell.panel.name}-{cell.mode.name}-s{cell.seed}"
    memory = cell.mode.wrap(parts.reader, parts.sources, cell.seed)
    return await play(
        evaluation_rules(config, cell.mode.use, cell.mode.trigger, cell.seed, label),
        cell.panel.tasks,
        parts.pool,
        parts.prompts,
        parts.voice,
        lambda spec: memory,
        parts.expect,
    )


def _rows(cell: Cell, played: RolloutResult) -> list[Row]:
    things = entity_words(played.trajectories)
    rows = {trajectory.task_id: episode_row(trajectory, things) for trajectory in played.trajectories}
    return [rows.get(task.id) or dropped_row(task.id, task.type) for task in cell.panel.tasks]


def _for_readers(trajectory: Trajectory) -> Trajectory:
    """The trajectory without prompt ids, most of its size, and without its duration: equal runs write equal bytes."""
    turns = [replace(turn, prompt_ids=()) for turn in trajectory.turns]
    return replace(trajectory, turns=turns, seconds=0.0)


def _finished(path: Path, head: Mapping[str, Any]) -> list[Row] | None:
    """The rows of a finished cell, or None when there are none from exactly these settings."""
    if not path.is_file():
        return None
    found, *rows = _read(path)
    return rows if found == head else None


def _read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _note_latency(path: Path, cell: Cell, played: RolloutResult) -> None:
    """Append how long a played cell took, in all and per episode."""
    times = {name: seconds for name, seconds in played.metrics.items() if name.startswith("time/")}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps({"cell": cell.file, **times}) + "\n")


def _settings(config: RunConfig) -> dict[str, Any]:
    """The settings that decide what an episode does, as plain values; no addresses, no secrets."""
    env, memory = asdict(config.env), asdict(config.memory)
    for name in ("workers", "timeout_s"):
        env.pop(name)
    for name in ("milvus", "verifier", "reconstructor"):
        memory.pop(name)
    if config.memory.use is Use.external or "external" in config.evaluate.modes:
        other = config.memory.reconstructor
        memory["reconstructor"] = [other.engine.name, other.engine.options.get("model") or other.model_path]
    temperature = config.evaluate.temperature
    settings = {"temperature": temperature, "prompt": asdict(config.prompt), "env": env, "memory": memory}
    return json.loads(json.dumps(settings))


def _digest(value: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()


def _how(mode: Mode) -> dict[str, str]:
    return {"mode": mode.name, "use": mode.use.value, "trigger": mode.trigger.value}
