"""Tables: what their YAML files say, how rows become cells, what is refused, and the formats."""

import csv
import io
from pathlib import Path

import pytest
import yaml

from mh_train.config.compose import config_dir
from mh_train.evaluate.modes import MODES
from mh_train.evaluate.render import as_csv, latex, markdown
from mh_train.evaluate.statistics import EvaluationError, TaskValues
from mh_train.evaluate.tables import (
    PAPERS,
    RowResult,
    RowSpec,
    TableSpec,
    check_comparable,
    finish,
    from_eval,
    from_stream,
    load_table,
)

FOLDER = Path(config_dir()) / "table"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
CONFIGS = Path(config_dir())


def number(mean, std=None):
    return {"mean": mean, "std": std}


def evaluated(mode="memory", success=0.75, **settings):
    cell = {
        "success": {**number(success, 0.05), "wilson": [0.6, 0.9]},
        "macro": number(success, 0.05),
        "score": number(success),
        "per_type": {"pick_two_obj_and_place": {**number(0.5), "tasks": 4}},
        "behaviour": dict.fromkeys(
            ("reject_rate", "reject_rate_per_memory", "copy", "distance", "grounding"), None if mode == "none" else 0.1
        ),
    }
    return {
        "results": {"valid_seen": {mode: cell}},
        "modes": {mode: {"mode": mode, "use": "none" if mode == "none" else "reconstruct"}},
        "panels": {"valid_seen": {"hash": "p1", "tasks": 8}},
        "seeds": [0, 1],
        "settings": {
            "env": {"name": "alfworld", "horizon": 50, "options": {}},
            "memory": {"k": 3, "max_retrievals": 5, "retrieval_costs_step": False, "budget": 512},
            "prompt": {"preset": "full"},
            "temperature": 0.4,
            **settings,
        },
    }


def values(wins, panel="p1"):
    return {"valid_seen": TaskValues(panel, {f"t{i}": float(i < wins) for i in range(8)})}


@pytest.mark.parametrize("name", NAMES)
def test_every_table_names_modes_methods_and_baselines_that_exist(name):
    for row in load_table(FOLDER / f"{name}.yaml").rows:
        assert row.mode in ({""} | set(MODES))
        assert not row.method or (CONFIGS / "memory" / f"{row.method}.yaml").is_file(), row
        for word in row.train:
            group, _, choice = word.partition("=")
            assert (CONFIGS / group / f"{choice}.yaml").is_file(), row


def test_the_tables_of_the_command_exist():
    assert {"main", "ablation", "ood", "source_state", "budget", "noise"} <= set(NAMES)


def test_paper_figures_belong_to_rows_of_their_table_or_to_closed_models():
    closed = {"gpt_4o", "gemini_2_5_pro", "memp", "simplemem", "simplemem_grpo"}
    elsewhere = closed | {"react", "reflexion", "mem0", "expel", "mem0_grpo", "synapse", "awm"}
    for name, papers in yaml.safe_load(PAPERS.read_text()).items():
        rows = {row.name for row in load_table(FOLDER / f"{name}.yaml").rows}
        for figure in papers["figures"]:
            assert set(figure["rows"]) - rows <= elsewhere, (name, figure["name"])


def test_a_table_that_does_not_exist_names_those_that_do(tmp_path):
    with pytest.raises(EvaluationError, match="ablation, budget"):
        load_table(FOLDER / "tabel.yaml")
    broken = tmp_path / "x.yaml"
    broken.write_text("title: x\nreference: a\nmetrics: [success]\nrows:\n  a: {label: A}\n")
    with pytest.raises(EvaluationError, match="Row a"):
        load_table(broken)


SPEC = TableSpec(
    "ablation",
    "Components",
    "memharness",
    ("success", "macro", "types"),
    (
        RowSpec("memharness", "MemHarness", "memory"),
        RowSpec("without_memory", "w/o memory", "none"),
        RowSpec("grpo", "RL only", "none", train=("baseline=grpo",)),
    ),
)


@pytest.fixture
def finished():
    full, without, lacking = SPEC.rows
    return finish(
        SPEC,
        [
            from_eval(full, evaluated(), values(6)),
            from_eval(without, evaluated("none", 0.5), values(4)),
            RowResult(lacking, missing="no run yet"),
        ],
        "alfworld",
    )


def test_cells_stand_beside_the_papers_figures_in_percent(finished):
    assert finished.head == (
        "row",
        "valid_seen success %",
        "valid_seen macro %",
        "paper: Avg. SR",
        "valid_seen pick_two_obj_and_place %",
    )
    assert finished.lines[0] == ("MemHarness", "75.0 ± 5.0", "75.0 ± 5.0", "85.2", "50.0")
    assert finished.lines[1][3] == "83.0" and finished.lines[2] == ("RL only", "–", "–", "76.4", "–")
    assert finished.notes == ("RL only: no run yet", "Paper figures: MemHarness table 2, as quoted in section 4.3.")


def test_the_reference_is_compared_with_every_row_that_has_a_result(finished):
    [one] = finished.comparisons
    assert (one["a"], one["b"], one["difference"], one["tasks"]) == ("memharness", "without_memory", 0.25, 8)
    assert one["p_holm"] == one["p_value"]


def test_another_environment_has_no_paper_figures():
    table = finish(SPEC, [from_eval(SPEC.rows[0], evaluated(), values(6))], "toy")
    assert not any("paper" in name for name in table.head) and table.notes == ()


def test_rows_of_other_tasks_are_refused():
    full, without, _ = SPEC.rows
    rows = [from_eval(full, evaluated(), values(6)), from_eval(without, evaluated("none"), values(4, "p2"))]
    with pytest.raises(EvaluationError, match="same panel"):
        finish(SPEC, rows, "alfworld")


@pytest.mark.parametrize(
    "change, key",
    [
        ({"temperature": 0.9}, "temperature"),
        ({"env": {"name": "alfworld", "horizon": 30, "options": {}}}, "env.horizon"),
        ({"memory": {"k": 5, "max_retrievals": 5, "retrieval_costs_step": False}}, "memory.k"),
    ],
)
def test_rows_with_other_budgets_or_decoding_are_refused(change, key):
    with pytest.raises(EvaluationError, match=key):
        check_comparable({"none": evaluated("none"), "a": evaluated(), "b": evaluated(**change)})


def test_rows_may_differ_in_how_they_keep_records_and_a_row_without_memory_has_no_k():
    other = {"k": 3, "max_retrievals": 5, "retrieval_costs_step": False, "budget": 128}
    check_comparable({"a": evaluated(), "b": evaluated(memory=other), "c": evaluated("none", memory={"k": 9})})


def test_a_stream_row_by_hand():
    rows = {
        seed: [
            {"task": f"t{i}", "success": s, "steps": 4, "injected": 1, "harmful": 0, "active": 2 * i}
            for i, s in enumerate(wins)
        ]
        for seed, wins in {0: (1, 0), 1: (1, 1)}.items()
    }
    got = from_stream(RowSpec("b128", "128", method="memguard"), rows, "p")
    assert got.cells["stream"]["success"] == number(0.75, pytest.approx(0.3535, abs=1e-4))
    assert got.cells["stream"]["active"] == number(2.0, 0.0)
    assert got.values["stream"].values == {"t0": 1.0, "t1": 0.5}


def test_the_three_formats_hold_the_same_cells(finished):
    text, lines = markdown(finished), list(csv.reader(io.StringIO(as_csv(finished))))
    assert [tuple(line) for line in lines] == [finished.head, *finished.lines]
    assert "| MemHarness | 75.0 ± 5.0 |" in text and "- RL only: no run yet" in text and "+0.250" in text
    tex = latex(finished)
    assert r"w/o memory & 50.0 $\pm$ 5.0 &" in tex and r"valid\_seen success \%" in tex
    assert tex.count(r"\\") == 4
