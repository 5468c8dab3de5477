"""The results table that a person reads: one line per (panel, mode), then the paired comparisons.

Why: the terminal, the README and the report show the same numbers in the same layout.
Invariant: only formats what `eval.json` holds; computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table

RESULT_HEAD = (
    "panel",
    "mode",
    "success",
    "95 %",
    "macro",
    "score",
    "steps",
    "asked",
    "accepted",
    "rejected",
    "malformed",
)
COMPARISON_HEAD = ("panel", "comparison", "difference", "95 %", "p", "p (BH)", "p (Holm)")


def result_rows(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The lines of the results table; means over seeds, with ± where there is more than one."""
    return [
        (
            panel,
            mode,
            _spread(cell["success"], 3),
            _interval(cell["success"]["wilson"]),
            _spread(cell["macro"], 3),
            _spread(cell["score"], 3),
            _spread(cell["steps"], 1),
            *(_spread(cell[name], 2) for name in ("retrievals", "accepted", "rejected", "malformed")),
        )
        for panel, modes in result["results"].items()
        for mode, cell in modes.items()
    ]


def comparison_rows(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The lines of the comparison table: success of a minus success of b over the same tasks."""
    return [
        (
            one["panel"],
            f"{one['a']} - {one['b']}",
            f"{one['difference']:+.3f}",
            _interval((one["low"], one["high"])),
            *(f"{one[name]:.4f}" for name in ("p_value", "p_benjamini_hochberg", "p_holm")),
        )
        for one in result["comparisons"]
    ]


def markdown(result: Mapping[str, Any]) -> str:
    """Both tables as Markdown."""
    blocks = [_markdown(RESULT_HEAD, result_rows(result))]
    if result["comparisons"]:
        blocks.append(_markdown(COMPARISON_HEAD, comparison_rows(result)))
    return "\n".join(blocks)


def terminal(result: Mapping[str, Any]) -> Group:
    """Both tables for `rich.print`."""
    tables = [_table("Results", RESULT_HEAD, result_rows(result))]
    if result["comparisons"]:
        tables.append(_table("Paired bootstrap over tasks", COMPARISON_HEAD, comparison_rows(result)))
    return Group(*tables)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in head:
        table.add_column(name, justify="left" if name in ("panel", "mode", "comparison") else "right")
    for row in rows:
        table.add_row(*row)
    return table


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _spread(value: Mapping[str, float | None], digits: int) -> str:
    std = value["std"]
    return f"{value['mean']:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")


def _interval(bounds: Sequence[float]) -> str:
    return f"[{bounds[0]:.3f}, {bounds[1]:.3f}]"
