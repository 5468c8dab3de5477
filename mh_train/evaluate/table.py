"""The results table that a person reads: one line per (panel, mode), then the paired comparisons.

Why: the terminal, the README and the report show the same numbers in the same layout.
Invariant: only formats what `eval.json` holds; computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.measure import Measurement
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
KEYS = 2
"""Columns that name a row, in both tables."""
WIDEST = 1000
"""More columns than any table has: what a block is measured against."""


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
    """Both tables for `rich.print`, in as many blocks of columns as the terminal's width asks for."""
    tables = [Blocks("Results", RESULT_HEAD, result_rows(result))]
    if result["comparisons"]:
        tables.append(Blocks("Paired bootstrap over tasks", COMPARISON_HEAD, comparison_rows(result)))
    return Group(*tables)


@dataclass(frozen=True)
class Blocks:
    """A table that is never squeezed: columns that do not fit beside each other follow below, each block with the two
    columns that name its rows."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One table per block."""
        first = KEYS
        while first < len(self.head):
            last = first + 1
            while last < len(self.head) and self._fits(console, options, first, last + 1):
                last += 1
            yield self._block(first, last)
            first = last

    def _fits(self, console: Console, options: ConsoleOptions, first: int, last: int) -> bool:
        wanted = Measurement.get(console, options.update(max_width=WIDEST), self._block(first, last)).maximum
        return wanted <= options.max_width

    def _block(self, first: int, last: int) -> Table:
        """The key columns and columns `first` to `last`; on a very narrow terminal only the keys are folded."""
        table = Table(title=self.title if first == KEYS else None, title_justify="left", box=SIMPLE_HEAD)
        for name in self.head[:KEYS]:
            table.add_column(name, overflow="fold")
        for name in self.head[first:last]:
            table.add_column(name, justify="right", no_wrap=True)
        for row in self.rows:
            table.add_row(*row[:KEYS], *row[first:last])
        return table


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _spread(value: Mapping[str, float | None], digits: int) -> str:
    std = value["std"]
    return f"{value['mean']:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")


def _interval(bounds: Sequence[float]) -> str:
    return f"[{bounds[0]:.3f}, {bounds[1]:.3f}]"
