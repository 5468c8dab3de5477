"""Several runs in one table: seeds pooled, mean and spread, paired tests against the first row.

Run: `mh-train compare runs/sweep/* [--panel valid_unseen] [--mode memory,replay] [--metric success]`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mh_train.config import ConfigError, RunConfig
from mh_train.config.schema import EvalConfig, LauncherConfig, TrackConfig
from mh_train.evaluate.compare import Compared, compare_runs
from mh_train.evaluate.runner import read_values
from mh_train.evaluate.statistics import EvaluationError, TaskValues
from mh_train.run.folder import RunFolder

WIDE = 160
"""Columns of the table in a file or a pipe, where nothing need be folded."""


def main(words: Sequence[str]) -> int:
    """Print the table. Raises `ConfigError` naming the first run that has no evaluation to compare."""
    parser = argparse.ArgumentParser(prog="mh-train compare", description="Several runs in one table.")
    parser.add_argument(
        "runs", nargs="+", help="run folders; the first one's row is what the others are tested against"
    )
    parser.add_argument("--panel", default="", help="task panel; the first run's last one by default")
    parser.add_argument(
        "--mode",
        default="",
        help="evaluation mode, or several with commas, a row for each; each run's first by default",
    )
    parser.add_argument("--metric", default="success")
    chosen = parser.parse_args(words)
    opened = [RunFolder.existing(path) for path in chosen.runs]
    panel = chosen.panel or opened[0][1].evaluate.panels[-1]
    try:
        rows = group(opened, panel, chosen.mode, chosen.metric)
        Console(width=None if sys.stdout.isatty() else WIDE).print(
            render(compare_runs(rows), f"{chosen.metric} on {panel}")
        )
    except EvaluationError as error:
        raise ConfigError(str(error)) from error
    return 0


def group(
    opened: Sequence[tuple[RunFolder, RunConfig]], panel: str, modes: str, metric: str
) -> dict[str, list[TaskValues]]:
    """Label -> the values of the runs that differ in their seed alone, in the order given; one row for each mode."""
    groups: list[tuple[RunConfig, list[RunFolder]]] = []
    for folder, config in opened:
        same = next((members for plain, members in groups if plain == seedless(config)), None)
        if same is None:
            groups.append((seedless(config), same := []))
        same.append(folder)
    first = {folder.path: config.evaluate.modes[0] for folder, config in opened}
    names = [label(members[0].path) for _, members in groups]
    rows = {}
    for name, (_, members) in zip(names, groups, strict=True):
        name = name if names.count(name) == 1 else str(members[0].path)
        for mode in modes.split(","):
            rows[f"{name} ({mode})" if "," in modes else name] = [
                read_values(folder.evaluation, panel, mode or first[folder.path], metric) for folder in members
            ]
    return rows


def seedless(config: RunConfig) -> RunConfig:
    """The configuration without what makes no difference to what is compared: seed, names, place, trackers."""
    plain = EvalConfig(), TrackConfig(), LauncherConfig()
    return replace(config, name="", root="", seed=0, threads=0, evaluate=plain[0], track=plain[1], launcher=plain[2])


def label(path: Path) -> str:
    """A run folder's name; of a sweep's job (`003-memory=replay,seed=1`) what its row has in common."""
    words = re.sub(r"^\d{3}-", "", path.name).split(",")
    return ",".join(word for word in words if not word.startswith("seed=")) or path.parent.name


def render(rows: Sequence[Compared], title: str) -> Table:
    """The table: mean ± std over runs, difference to the first row with its 95 % interval, p values."""
    table = Table(title=title)
    for head in ("run", "runs", "mean ± std", "difference", "95 %", "p", "p (BH)", "p (Holm)"):
        table.add_column(head, overflow="fold")
    for row in rows:
        spread = "" if row.std is None else f" ± {row.std:.3f}"
        cells = [row.label, str(row.runs), f"{row.mean:.3f}{spread}"]
        test = row.against_first
        if test is not None and row.p_benjamini_hochberg is not None and row.p_holm is not None:
            cells += [f"{test.difference:+.3f}", f"[{test.low:+.3f}, {test.high:+.3f}]", f"{test.p_value:.4f}"]
            cells += [f"{row.p_benjamini_hochberg:.4f}", f"{row.p_holm:.4f}"]
        table.add_row(*cells)
    return table
