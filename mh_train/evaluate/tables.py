"""The papers' tables: what their rows are, and a finished table from the rows' results, beside the papers' figures.

Why: a table is a claim about rows that differ in one thing; what that is stands in one YAML file (`configs/table/`),
and the figures to compare with in another (`papers.yaml`).
Invariants: rows are compared only when they met the same tasks with the same decoding and budgets; a row without a
result keeps its place and says what is missing; shares are shown in percent.
Run: `mh-train eval table=ablation experiment=quickstart`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from mh_train.config.schema import Use
from mh_train.evaluate.effects import cohens_h, micro, same_panel
from mh_train.evaluate.statistics import (
    EvaluationError,
    TaskValues,
    benjamini_hochberg,
    holm,
    mean_std,
    paired_bootstrap,
)

PAPERS = Path(__file__).with_name("papers.yaml")
COUNTS = ("steps", "retrievals", "accepted", "rejected", "active", "harmful", "injected")
"""Metrics that are no shares, so not in percent."""
STREAM = "stream"
"""Stands for the panel of rows that were played as task streams."""
Number = Mapping[str, float | None]
"""{"mean", "std"} over seeds; std is None with a single one."""


@dataclass(frozen=True)
class RowSpec:
    """One row. A `mode` of evaluation on the run's own policy, on its `cold_start` or `base` model (`policy`), or on
    the policy of a run of its own (`train`: that run's settings); or a `method` of configs/memory on a task stream,
    with `memory` settings on top and a share of corrupted labels (`noise`)."""

    name: str
    label: str
    mode: str = ""
    policy: str = "own"
    train: tuple[str, ...] = ()
    method: str = ""
    memory: tuple[str, ...] = ()
    noise: float = 0.0


@dataclass(frozen=True)
class TableSpec:
    """A table: rows, the metrics of each panel, and the row that the others are compared with."""

    name: str
    title: str
    reference: str
    metrics: tuple[str, ...]
    rows: tuple[RowSpec, ...]
    panels: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    """Settings that all stream rows share."""
    vary: tuple[str, ...] = ()
    """Budgets of the bank that stream rows differ in on purpose."""


@dataclass
class RowResult:
    """What a row's evaluation gave: numbers by panel and metric, success per task by panel; or why there is none."""

    spec: RowSpec
    cells: dict[str, dict[str, Number]] = field(default_factory=dict)
    values: dict[str, TaskValues] = field(default_factory=dict)
    missing: str = ""


@dataclass(frozen=True)
class Finished:
    """A table as texts: the head, one line per row, comparisons with the reference, notes on what is missing."""

    title: str
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    comparisons: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]


def load_table(path: Path) -> TableSpec:
    """The table of a YAML file. Raises `EvaluationError` naming what is wrong with it."""
    if not path.is_file():
        known = ", ".join(sorted(other.stem for other in path.parent.glob("*.yaml")))
        raise EvaluationError(f"There is no table {path.stem}; choose among {known}.")
    value = yaml.safe_load(path.read_text(encoding="utf-8"))
    allowed = {f.name for f in fields(RowSpec)} - {"name"}
    rows = []
    for name, row in value.pop("rows").items():
        if set(row) - allowed or bool(row.get("mode")) == bool(row.get("method")):
            raise EvaluationError(f"Row {name} of table {path.stem} needs a mode or a method, and only known keys.")
        listed = {key: tuple(item) if isinstance(item, list) else item for key, item in row.items()}
        rows.append(RowSpec(**{"name": name, **listed}))
    spec = TableSpec(
        name=path.stem,
        title=value["title"],
        reference=value["reference"],
        metrics=tuple(value["metrics"]),
        rows=tuple(rows),
        **{name: tuple(value.get(name, ())) for name in ("panels", "memory", "vary")},
    )
    if spec.reference not in {row.name for row in rows}:
        raise EvaluationError(f"Table {spec.name} compares with row {spec.reference}, which it does not have.")
    return spec


def from_eval(spec: RowSpec, result: Mapping[str, Any], values: Mapping[str, TaskValues]) -> RowResult:
    """A row from its `eval.json` and its task values by panel."""
    cells: dict[str, dict[str, Number]] = {}
    for panel, modes in result["results"].items():
        cell = modes[spec.mode]
        numbers = {name: value for name, value in cell.items() if isinstance(value, Mapping) and "mean" in value}
        numbers |= cell["per_type"]
        rates = ("reject_rate", "reject_rate_per_memory", "copy", "distance", "grounding")
        known = {name: cell["behaviour"][name] for name in rates}
        numbers |= {name: {"mean": rate, "std": None} for name, rate in known.items() if rate is not None}
        cells[panel] = numbers
    return RowResult(spec, cells, dict(values))


def from_stream(spec: RowSpec, rows: Mapping[int, Sequence[Mapping[str, Any]]], panel_hash: str) -> RowResult:
    """A row from its stream's rows by seed; the bank is that of the end, everything else is over the whole stream."""

    def spread(values: Sequence[float]) -> Number:
        mean, std = mean_std(values)
        return {"mean": mean, "std": std}

    seeds = sorted(rows)
    cell: dict[str, Number] = {
        name: spread([mean_std([float(row[name]) for row in rows[seed]])[0] for seed in seeds])
        for name in ("success", "steps", "injected", "harmful")
    }
    cell["active"] = spread([float(rows[seed][-1]["active"]) for seed in seeds])
    tasks: dict[str, list[float]] = {}
    for seed in seeds:
        for row in rows[seed]:
            tasks.setdefault(row["task"], []).append(float(row["success"]))
    values = TaskValues(panel_hash, {task: mean_std(found)[0] for task, found in tasks.items()})
    return RowResult(spec, {STREAM: cell}, {STREAM: values})


def check_comparable(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise `EvaluationError` unless rows (name -> `eval.json`) share panels, seeds, decoding, prompts and budgets.

    How records are written, scored and kept is what rows may differ in; rows without memory have no memory budgets."""
    if not results:
        return
    first = next(iter(results))
    told = {name: _budgets(result) for name, result in results.items()}
    for name, result in results.items():
        for panel, about in result["panels"].items():
            if panel in results[first]["panels"]:
                same_panel([about["hash"], results[first]["panels"][panel]["hash"]])
        for key, value in told[name].items():
            other = next(row for row in told if key in told[row])
            if value != told[other][key]:
                raise EvaluationError(
                    f"Rows {other} and {name} differ in {key} ({told[other][key]} and {value}); a table compares rows "
                    "with the same decoding and budgets."
                )


def _budgets(result: Mapping[str, Any]) -> dict[str, Any]:
    settings = result["settings"]
    env = {f"env.{key}": value for key, value in settings["env"].items() if key != "options"}
    prompt = {"prompt": settings["prompt"], "temperature": settings["temperature"], "seeds": result["seeds"]}
    if all(mode["use"] == Use.none.value for mode in result["modes"].values()):
        return env | prompt
    memory = {f"memory.{key}": settings["memory"][key] for key in ("k", "max_retrievals", "retrieval_costs_step")}
    return env | prompt | memory


def finish(spec: TableSpec, rows: Sequence[RowResult], env: str) -> Finished:
    """The table with a column per panel and metric, the paper's figure beside it where there is one for `env`."""
    papers = yaml.safe_load(PAPERS.read_text(encoding="utf-8")).get(spec.name, {"source": "", "figures": []})
    panels = list(dict.fromkeys(panel for row in rows for panel in row.cells))
    head: list[str] = ["row"]
    columns: list[list[str]] = []
    for panel in panels:
        for metric in _metrics(spec, rows, panel):
            unit = "" if metric in COUNTS else " %"
            head.append(f"{panel} {metric}{unit}")
            columns.append([_shown(row.cells.get(panel, {}).get(metric), metric) for row in rows])
            for figure in papers["figures"]:
                if figure["metric"] == metric and figure["env"] in ("*", env) and figure["panel"] in ("*", panel):
                    head.append(f"paper: {figure['name']}")
                    columns.append([_figure(figure["rows"].get(row.spec.name)) for row in rows])
    lines = [(row.spec.label, *cells) for row, cells in zip(rows, zip(*columns, strict=True), strict=True)]
    notes = [f"{row.spec.label}: {row.missing}" for row in rows if row.missing]
    if papers["source"] and any(name.startswith("paper: ") for name in head):
        notes.append(f"Paper figures: {papers['source']}.")
    return Finished(spec.title, tuple(head), tuple(lines), tuple(compare(spec, rows)), tuple(notes))


def _metrics(spec: TableSpec, rows: Sequence[RowResult], panel: str) -> list[str]:
    """The table's metrics; "types" stands for the success of every task type of the panel."""
    found: list[str] = []
    for metric in spec.metrics:
        types = sorted({name for row in rows for name, n in row.cells.get(panel, {}).items() if "tasks" in n})
        found += types if metric == "types" else [metric]
    return [metric for metric in found if any(metric in row.cells.get(panel, {}) for row in rows)]


def compare(spec: TableSpec, rows: Sequence[RowResult]) -> list[dict[str, Any]]:
    """The reference row against every other on every panel: paired bootstrap over tasks, corrected over all of them."""
    reference = next(row for row in rows if row.spec.name == spec.reference)
    found = []
    for panel, mine in reference.values.items():
        for row in rows:
            if row is not reference and panel in row.values:
                other = row.values[panel]
                effect = cohens_h(micro(mine.values), micro(other.values))
                tested = asdict(paired_bootstrap(mine, other))
                found.append({"panel": panel, "a": spec.reference, "b": row.spec.name, **tested, "cohens_h": effect})
    p_values = [one["p_value"] for one in found]
    for one, fdr, family in zip(found, benjamini_hochberg(p_values), holm(p_values), strict=True):
        one.update(p_benjamini_hochberg=fdr, p_holm=family)
    return found


def _shown(number: Number | None, metric: str) -> str:
    if number is None or number["mean"] is None:
        return "–"
    scale = 1.0 if metric in COUNTS else 100.0
    std = number["std"]
    return f"{scale * number['mean']:.1f}" + ("" if std is None else f" ± {scale * std:.1f}")


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
