"""A finished table as Markdown, CSV and LaTeX.

Why: the terminal, a spreadsheet and a paper show the same cells. Invariant: only formats; computes nothing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from mh_train.evaluate.tables import Finished

COMPARED = ("panel", "comparison", "difference", "95 %", "p", "p (BH)", "p (Holm)", "h")
_ESCAPED = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "±": r"$\pm$", "–": "--", "<": "$<$", ">": "$>$"}


def markdown(table: Finished) -> str:
    """Title, table, comparisons of success with the reference row, notes."""
    parts = [f"## {table.title}\n", _markdown(table.head, table.lines)]
    if table.comparisons:
        parts.append("Success, paired bootstrap over tasks:\n")
        parts.append(_markdown(COMPARED, [_compared(one) for one in table.comparisons]))
    if table.notes:
        parts.append("".join(f"- {note}\n" for note in table.notes))
    return "\n".join(parts)


def as_csv(table: Finished) -> str:
    """Head and lines; comparisons and notes are in the Markdown and in the JSON file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.head, *table.lines])
    return text.getvalue()


def latex(table: Finished) -> str:
    """A `tabular` with booktabs rules; first column left, numbers right."""
    rows = [" & ".join(map(_escaped, line)) + r" \\" for line in (table.head, *table.lines)]
    columns = "l" + "r" * (len(table.head) - 1)
    return "\n".join(
        [
            rf"% {table.title}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            rows[0],
            r"\midrule",
            *rows[1:],
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    marks = ["---"] + ["---:"] * (len(head) - 1)
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, marks, *rows))


def _compared(one: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        one["panel"],
        f"{one['a']} - {one['b']}",
        f"{one['difference']:+.3f}",
        f"[{one['low']:+.3f}, {one['high']:+.3f}]",
        *(f"{one[name]:.4f}" for name in ("p_value", "p_benjamini_hochberg", "p_holm")),
        f"{one['cohens_h']:+.2f}",
    )


def _escaped(text: str) -> str:
    return "".join(_ESCAPED.get(letter, letter) for letter in text)
