"""The results table on terminals of any width: every value whole, on the line of its mode."""

import io
import re

import pytest
from rich.console import Console

from mh_train.evaluate.table import COMPARISON_HEAD, RESULT_HEAD, comparison_rows, result_rows, terminal

MODES = ("memory", "none", "replay", "source_removed")


def spread(mean, std=None):
    return {"mean": mean, "std": std}


def cell(place, std):
    shares = {name: spread(0.1 * place + 0.0125, std) for name in ("macro", "score")}
    counts = {name: spread(1.25 + place, std) for name in ("steps", "retrievals", "accepted", "rejected", "malformed")}
    success = {**spread(0.1 * place, std), "wilson": [0.05 * place, 0.15 * place]}
    return {"success": success, **shares, **counts}


def evaluated(std=None):
    panels = ("train", "valid_seen", "valid_unseen")
    comparison = {"low": -0.123, "high": 0.456, "p_value": 0.0123, "p_benjamini_hochberg": 0.0246, "p_holm": 0.0369}
    return {
        "results": {panel: {mode: cell(place, std) for place, mode in enumerate(MODES)} for panel in panels},
        "comparisons": [
            {"panel": panel, "a": "memory", "b": mode, "difference": 0.25, **comparison}
            for panel in panels
            for mode in MODES[1:]
        ],
    }


def printed(result, width):
    console = Console(file=io.StringIO(), width=width)
    console.print(terminal(result))
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("std", [None, 0.0271])
def test_every_value_stands_whole_on_the_line_of_its_row(width, std):
    result = evaluated(std)
    text = printed(result, width)
    lines = [re.split(r"\s{2,}", line.strip()) for line in text]
    assert max(map(len, text)) <= width
    for head, rows in ((RESULT_HEAD, result_rows(result)), (COMPARISON_HEAD, comparison_rows(result))):
        for name in (head, *rows):
            shown = [value for line in lines if line[:2] == [*name[:2]] for value in line[2:]]
            assert shown == [*name[2:]]


def test_a_wide_terminal_shows_each_table_as_one_block():
    blocks = {width: sum(line.split()[:1] == ["panel"] for line in printed(evaluated(), width)) for width in (140, 80)}
    assert blocks == {140: 2, 80: 5}
