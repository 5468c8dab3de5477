"""From the rows of streams to cumulative curves, their spread over seeds, and the table that a person reads.

Invariant: everything is a pure function of the rows, so that tables can be made again from the run folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from rich.console import Group
from rich.table import Table

from mh_train.evaluate.statistics import EvaluationError, mean_std
from mh_train.evaluate.stream import SHARES, Row

T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""97.5 % quantiles of Student's t for 1 to 9 degrees of freedom."""
NUMBERS = ("success", "steps", "injected", "harmful", "unfounded", "guards", "active")
END = ("at the end", "success", "steps", "injected", "harmful", "unfounded", "guards", "bank")
ALONG = ("success so far", *(f"{round(100 * share)} %" for share in SHARES))


def curve(rows: Sequence[Row]) -> list[dict[str, float]]:
    """The cumulative numbers at each checkpoint: mean success and steps, summed injections, size of the bank."""
    points = []
    for share in SHARES:
        part = rows[: round(share * len(rows))]
        if not part:
            raise EvaluationError("The stream is too short for five checkpoints; raise stream.tasks.")
        sums = {name: float(sum(row[name] for row in part)) for name in NUMBERS}
        means = {name: sums[name] / len(part) for name in ("success", "steps")}
        points.append({**sums, **means, "share": share, "active": float(part[-1]["active"])})
    return points


def interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean over seeds and the half-width of its 95 % interval (Student's t); None for a single seed.

    From ten seeds on the quantile of nine degrees of freedom is used, which is on the safe side."""
    mean, std = mean_std(values)
    if std is None:
        return mean, None
    return mean, T_95[min(len(values) - 1, len(T_95)) - 1] * std / sqrt(len(values))


def summary(cells: Mapping[str, Mapping[int, Sequence[Row]]], pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Method -> curve with intervals over seeds, and for each of `pairs` of methods the first minus the second at the
    end of the stream, paired by seed.

    `cells` is method -> seed -> rows. Raises `EvaluationError` when methods met other tasks or another order."""
    first = next(iter(cells))
    tasks = {seed: [row["task"] for row in rows] for seed, rows in cells[first].items()}
    for method, of in cells.items():
        if {seed: [row["task"] for row in rows] for seed, rows in of.items()} != tasks:
            raise EvaluationError(f"Methods {first} and {method} met other tasks; delete the stream folder and rerun.")
    curves = {method: {seed: curve(rows) for seed, rows in of.items()} for method, of in cells.items()}
    return {
        "seeds": list(tasks),
        "tasks": len(next(iter(tasks.values()))),
        "methods": {method: _over_seeds(list(of.values())) for method, of in curves.items()},
        "differences": {
            f"{a} - {b}": {
                name: interval([curves[a][seed][-1][name] - curves[b][seed][-1][name] for seed in tasks])
                for name in NUMBERS
            }
            for a, b in pairs
        },
    }


def _over_seeds(curves: Sequence[Sequence[Mapping[str, float]]]) -> list[dict[str, Any]]:
    return [
        {"share": points[0]["share"], **{name: interval([point[name] for point in points]) for name in NUMBERS}}
        for points in zip(*curves, strict=True)
    ]


def tables(result: Mapping[str, Any]) -> list[list[tuple[str, ...]]]:
    """What a person reads, heads first: all numbers at the end with the differences, and success along the stream."""
    methods = result["methods"].items()
    end = [(method, *_cells(points[-1])) for method, points in methods]
    end += [(name, *_cells(found, signed=True)) for name, found in result["differences"].items()]
    along = [(method, *(_cells(point)[0] for point in points)) for method, points in methods]
    return [[END, *end], [ALONG, *along]]


def markdown(result: Mapping[str, Any]) -> str:
    """The tables as Markdown."""
    return "\n".join(
        "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *lines))
        for head, *lines in tables(result)
    )


def _cells(numbers: Mapping[str, Any], signed: bool = False) -> list[str]:
    digits = {"success": 3, "steps": 2}
    sign = "+" if signed else ""
    cells = []
    for name in NUMBERS:
        mean, half = numbers[name]
        kind = f".{digits.get(name, 0 if name == 'active' else 1)}f"
        cells.append(f"{mean:{sign}{kind}}" + ("" if half is None else f" ± {half:{kind}}"))
    return cells


def terminal(result: Mapping[str, Any]) -> Group:
    """The tables for `rich.print`."""
    about = f"{result['tasks']} tasks, seeds {result['seeds']}: mean and 95 % interval over seeds"
    drawn = []
    for title, (head, *lines) in zip((about, ""), tables(result), strict=True):
        table = Table(title=title, title_justify="left")
        for column in head:
            table.add_column(column, justify="left" if column == head[0] else "right")
        for line in lines:
            table.add_row(*line)
        drawn.append(table)
    return Group(*drawn)
