"""Every metric that a run logs is explained in docs/metrics.md, and the page explains nothing else."""

import ast
import re
from fnmatch import fnmatchcase
from functools import cache

from pages import ROOT

from mh_train.run.metrics import read_metrics

PAGE = ROOT / "docs" / "metrics.md"
GROUPS = ("reward", "env", "memory", "learn", "time", "engine", "eval", "async", "sft")
NAME = re.compile(rf"({'|'.join(GROUPS)})/[a-z0-9_*]+")


@cache
def explained() -> dict[str, str]:
    """Metric or pattern (`memory/label_*`) -> the row that explains it."""
    rows = {}
    for line in PAGE.read_text().splitlines():
        for code in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
            name = re.sub(r"<\w+>", "*", code)
            if NAME.fullmatch(name) and line.count(" | ") == 2:
                assert name not in rows, f"{name} is explained twice"
                rows[name] = line
    return rows


@cache
def written_in_code() -> dict[str, str]:
    """Metric names in the source (formatted parts as `*`) -> the file; names that are all pattern are left out."""
    names = {}
    for path in (ROOT / "mh_train").rglob("*.py"):
        if path.parent.name == "report":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            text = getattr(node, "value", None)
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(v.value) if isinstance(v, ast.Constant) else "*" for v in node.values)
            if isinstance(text, str) and NAME.fullmatch(text) and not text.endswith(("_", "/*")):
                names[text] = path.name
    return names


def is_explained(name: str) -> bool:
    return any(fnmatchcase(name, told) or fnmatchcase(told, name) for told in explained())


def test_what_a_toy_run_logs_is_explained(toy_runs):
    rows = read_metrics(toy_runs / "toy" / "metrics.jsonl")
    logged = {name for row in rows for name in row} - {"update"}
    assert {name.split("/")[0] for name in logged} <= set(GROUPS)
    assert sorted(name for name in logged if not is_explained(name)) == []


def test_what_the_code_can_log_is_explained():
    assert sorted(f"{name} ({file})" for name, file in written_in_code().items() if not is_explained(name)) == []


def test_the_page_explains_no_metric_that_is_gone():
    source = "\n".join(path.read_text() for path in (ROOT / "mh_train").rglob("*.py"))
    gone = [
        name
        for name in explained()
        if not re.search(rf"\b{re.split('[/*]', name)[1]}", source)
        and not any(fnmatchcase(name, pattern) for pattern in written_in_code())
    ]
    assert gone == []


def test_every_row_says_what_is_healthy():
    for row in explained().values():
        assert all(cell.strip() for cell in row.strip("| ").split(" | ")), row
