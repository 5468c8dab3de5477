"""A sweep in one table: seeds pooled, rows tested against the first one on the same tasks."""

import json
from pathlib import Path

import pytest

from mh_train.cli import main
from mh_train.config import compose
from mh_train.evaluate.compare import compare_runs, pooled
from mh_train.evaluate.runner import read_values
from mh_train.evaluate.statistics import EvaluationError, TaskValues, paired_bootstrap
from mh_train.run.folder import RunFolder
from mh_train.stages.compare import group


def values(*numbers: float, panel: str = "p") -> TaskValues:
    return TaskValues(panel, {f"t{i}": number for i, number in enumerate(numbers)})


def test_runs_of_a_row_are_averaged_task_by_task_and_their_spread_is_over_runs():
    rows = compare_runs({"a": [values(1, 1, 0, 0), values(1, 1, 1, 1)], "b": [values(0, 0, 0, 0)]})
    assert (rows[0].mean, rows[0].runs) == (0.75, 2)
    assert rows[0].std == pytest.approx(0.35355, abs=1e-4)
    assert rows[0].against_first is None and rows[1].std is None
    direct = paired_bootstrap(values(0, 0, 0, 0), values(1, 1, 0.5, 0.5))
    assert rows[1].against_first == direct
    assert rows[1].p_holm == direct.p_value


def test_other_tasks_are_not_compared():
    with pytest.raises(EvaluationError, match="evaluate all of them on the same panel"):
        pooled([values(1, 0), values(1, 0, panel="q")])


def run_folder(root: Path, name: str, seed: int, memory: str, wins: str, *also: str) -> str:
    """A run folder with one evaluated panel; `wins` is one digit per task, `also` that of mode replay."""
    config = compose(["experiment=toy", f"root={root}", f"seed={seed}", f"memory={memory}", "evaluate.modes=[none]"])
    config.name = name
    folder = RunFolder.open(config)
    cells = folder.evaluation / "cells"
    cells.mkdir(parents=True)
    modes = dict(zip(("none", "replay"), (wins, *also), strict=False))
    for mode, digits in modes.items():
        rows = [{"header": 1}, *({"task": f"t{i}", "success": float(win)} for i, win in enumerate(digits))]
        (cells / f"test.{mode}.0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = {"results": {"test": {mode: {} for mode in modes}}, "seeds": [0], "panels": {"test": {"hash": "p"}}}
    (folder.evaluation / "eval.json").write_text(json.dumps(result))
    assert read_values(folder.evaluation, "test", "none").values["t0"] == float(wins[0])
    return str(folder.path)


def test_the_runs_of_a_sweep_become_one_row_per_setting(tmp_path, capsys):
    runs = [
        run_folder(tmp_path, "s/000-memory=replay,seed=0", 0, "replay", "1110"),
        run_folder(tmp_path, "s/001-memory=replay,seed=1", 1, "replay", "1111"),
        run_folder(tmp_path, "s/002-memory=none,seed=0", 0, "none", "1000"),
    ]
    assert main(["compare", *runs, "--panel", "test"]) == 0
    told = capsys.readouterr().out
    rows = [line for line in told.splitlines() if "memory=" in line]
    assert len(rows) == 2
    assert "memory=replay" in rows[0] and "0.875 ± 0.177" in rows[0]
    assert "memory=none" in rows[1] and "-0.625" in rows[1]


def test_modes_of_the_same_runs_are_rows_and_rows_of_one_name_are_told_apart(tmp_path, capsys):
    runs = [run_folder(tmp_path, f"{place}/000-seed=0", 0, place, "1110", "1000") for place in ("replay", "none")]
    assert main(["compare", *runs, "--panel", "test", "--mode", "none,replay"]) == 0
    rows = [line.split("│")[1:4] for line in capsys.readouterr().out.splitlines() if "(" in line and "0." in line]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["replay (none)", "1", "0.750"],
        ["replay (replay)", "1", "0.250"],
        ["none (none)", "1", "0.750"],
        ["none (replay)", "1", "0.250"],
    ]
    other = run_folder(tmp_path, "other/replay/001-seed=0", 0, "awm", "1110")
    opened = [RunFolder.existing(run) for run in (runs[0], other)]
    assert list(group(opened, "test", "none", "success")) == [runs[0], other]


def test_a_run_without_evaluation_is_a_sentence(tmp_path, capsys):
    run = RunFolder.open(compose(["experiment=toy", f"root={tmp_path}"]))
    assert main(["compare", str(run.path)]) == 2
    assert "run `mh-train eval` first" in capsys.readouterr().err
