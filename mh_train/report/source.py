"""What a run folder says about a run beside its episodes and its bank: settings, software, metrics, evaluations.

Why: the report must open a run that still works, one that was killed and one of an older version. Invariants: reads
files only, needs none of them, and takes settings as they were written.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from mh_train.report.text import number, without_secrets
from mh_train.run.metrics import read_metrics

log = logging.getLogger(__name__)


class ReportError(RuntimeError):
    """A report cannot be made; the message says what to do."""


@dataclass(frozen=True)
class Cell:
    """One evaluated (policy, panel, mode, seed) with its episode rows and the file of its trajectories."""

    policy: str
    panel: str
    panel_hash: str
    mode: str
    seed: int
    rows: Sequence[Mapping[str, Any]]
    trajectories: Path


@dataclass(frozen=True)
class Run:
    """A run folder as found. `evaluations` are the `eval.json` of each policy, `trained` and `cold_start`."""

    path: Path
    name: str
    config: Mapping[str, Any]
    software: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]]
    cold_start: Mapping[str, Any] = field(default_factory=dict)
    evaluations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    cells: Sequence[Cell] = ()


def read_run(path: Path) -> Run:
    """Read a run folder. Raises `ReportError` when it is none or its settings cannot be read."""
    path = Path(path)
    try:
        config = yaml.safe_load((path / "config.yaml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ReportError(f"{path} is not a run folder: its config.yaml cannot be read ({error}).") from error
    if not isinstance(config, dict):
        raise ReportError(f"{path} is not a run folder: its config.yaml holds no settings.")
    evaluations, cells = {}, []
    for policy, folder in (("trained", path / "eval"), ("cold_start", path / "eval" / "cold_start")):
        if result := _evaluation(folder / "eval.json"):
            evaluations[policy] = without_secrets(result)
            cells += _cells(policy, folder, result)
    return Run(
        path,
        str(config.get("name", path.name)),
        without_secrets(config),
        without_secrets(_json(path / "env.json")),
        read_metrics(path / "metrics.jsonl"),
        {**_json(path / "sft" / "rows_metrics.json"), **_json(path / "sft" / "model" / "metrics.json")},
        evaluations,
        cells,
    )


def tokenizer_file(run: Path) -> Path | None:
    """The tokenizer that the run saved, None where there is none."""
    found = (run / folder / "tokenizer.json" for folder in ("model", "sft/model", "base_model"))
    return next((path for path in found if path.is_file()), None)


def metric_series(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`metrics.jsonl` by column: {"updates": [...], "series": {name: [value or None per update]}}."""
    names = sorted({name for row in rows for name in row if name != "update"})
    series = {name: [number(row.get(name)) for row in rows] for name in names}
    return {"updates": [row.get("update", place + 1) for place, row in enumerate(rows)], "series": series}


def _evaluation(path: Path) -> dict[str, Any]:
    """`eval.json`, empty when it is absent or not what an evaluation writes."""
    result = _json(path)
    tables = ("panels", "modes", "results")
    if result and not (
        all(isinstance(result.get(name), dict) for name in tables)
        and all(isinstance(about, dict) for name in tables for about in result[name].values())
        and all(isinstance(seed, int) for seed in result.get("seeds") or [""])
    ):
        log.warning("%s is not what an evaluation writes; the report does without it.", path)
        return {}
    return result


def _cells(policy: str, folder: Path, result: Mapping[str, Any]) -> list[Cell]:
    found = []
    for panel, about in result.get("panels", {}).items():
        for mode in result.get("modes", {}):
            for seed in result.get("seeds", []):
                file = f"{panel}.{mode}.{seed}.jsonl"
                _, *rows = _lines(folder / "cells" / file) or [{}]
                if rows:
                    told = (policy, panel, str(about.get("hash", "")), mode, int(seed))
                    found.append(Cell(*told, rows, folder / "trajectories" / file))
    return found


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        log.warning("%s cannot be read (%s); the report does without it.", path, error)
        return {}
    if not isinstance(value, dict):
        log.warning("%s holds no object; the report does without it.", path)
        return {}
    return value


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        log.warning("%s cannot be read (%s); the report does without it.", path, error)
        return []
    return rows if all(map(_is_row, rows)) else []


def _is_row(row: Any) -> bool:
    """Whether it could be an episode's row, or the head of its file."""
    if not isinstance(row, dict):
        return False
    actions, asked = row.get("actions", []), row.get("asked", [])
    return isinstance(actions, list) and isinstance(asked, list) and all(isinstance(one, dict) for one in asked)
