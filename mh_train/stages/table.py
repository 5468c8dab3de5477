"""One of the papers' tables: play what its rows lack, then print and save it as Markdown, CSV, LaTeX and JSON.

Why: a table should be one command. Rows on the run's own policy are evaluated; rows that need a run of their own are
evaluated where it exists and trained only when asked (`train=true`); rows on a task stream are streamed.
Invariants: everything played is kept, so the same command continues; a row that cannot be had is named in the table
with the command that makes it, and no other row suffers.
Run: `mh-train eval table=main experiment=quickstart` (add `train=true`, or `--dry-run` to see the rows).
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mh_train.config import ConfigError, RunConfig, compose
from mh_train.config.compose import config_dir
from mh_train.engine.codec import ModelError
from mh_train.evaluate.render import as_csv, latex, markdown
from mh_train.evaluate.runner import read_values
from mh_train.evaluate.statistics import EvaluationError
from mh_train.evaluate.stream import Method
from mh_train.evaluate.stream import check_comparable as check_stream
from mh_train.evaluate.tables import RowResult, RowSpec, TableSpec, check_comparable, finish, from_eval, from_stream
from mh_train.evaluate.tables import load_table as read_table
from mh_train.files import write_atomic, write_json
from mh_train.run.folder import RunFolder
from mh_train.run.progress import say
from mh_train.stages import parts
from mh_train.stages.actors import source
from mh_train.stages.eval import bank_snapshot, evaluate_policy

TRAINING = ("data", "sft", "grpo")


def main(words: Sequence[str], dry_run: bool = False) -> int:
    """`words` are those of the command line: `table=NAME`, `train=true`, and the settings of the base run."""
    named = dict(word.split("=", 1) for word in words if word.split("=", 1)[0] in ("table", "train"))
    settings = [word for word in words if word.split("=", 1)[0] not in ("table", "train")]
    if named.get("train", "false") not in ("true", "false"):
        raise ConfigError(f"train={named['train']} must be true (train the rows that lack a run) or false.")
    try:
        spec = read_table(config_dir() / "table" / f"{named['table']}.yaml")
    except EvaluationError as error:
        raise ConfigError(str(error)) from error
    base = compose(settings)
    if dry_run:
        for row in spec.rows:
            say(f"{row.label}: {_command(row, base, settings)}")
        return 0
    maker = _Maker(spec, base, settings, named.get("train") == "true")
    rows = [maker.row(row) for row in spec.rows]
    check_comparable(maker.evaluated)
    return save(spec, rows, base)


def save(spec: TableSpec, rows: Sequence[RowResult], base: RunConfig) -> int:
    """Write `<run>/tables/<name>.md|csv|tex|json` and print the table; 1 when not one row has a result."""
    table = finish(spec, rows, base.env.name)
    folder = Path(base.root) / base.name / "tables"
    for ending, text in (("md", markdown(table)), ("csv", as_csv(table)), ("tex", latex(table))):
        write_atomic(folder / f"{spec.name}.{ending}", text)
    write_json(folder / f"{spec.name}.json", {**asdict(table), "rows": {row.spec.name: row.cells for row in rows}})
    print(markdown(table))
    say(f"table: {folder / spec.name}.md")
    return 0 if any(row.cells for row in rows) else 1


class _Maker:
    """Makes rows; collects the `eval.json` of those evaluated and the methods of those streamed."""

    def __init__(self, spec: TableSpec, base: RunConfig, settings: Sequence[str], train: bool) -> None:
        self.spec, self.base, self.settings, self.train = spec, base, list(settings), train
        self.evaluated: dict[str, dict[str, Any]] = {}
        self.streamed: list[Method] = []

    def row(self, row: RowSpec) -> RowResult:
        """The result of a row; what cannot be configured is told in its place."""
        say(f"table    {row.label}")
        try:
            return self._stream(row) if row.method else self._evaluate(row)
        except (ConfigError, ModelError) as error:
            return RowResult(row, missing=f"{error} ({_command(row, self.base, self.settings)})")

    def _evaluate(self, row: RowSpec) -> RowResult:
        config = _config(row, self.base, self.settings)
        config.evaluate.panels = list(self.spec.panels) or config.evaluate.panels
        folder = RunFolder(Path(config.root) / config.name)
        if row.train and not (folder.model / "config.json").is_file():
            if not self.train:
                return RowResult(row, missing=f"no run yet: {_command(row, self.base, self.settings)}")
            for stage in TRAINING:
                importlib.import_module(f"mh_train.stages.{stage}").main(config)
        parts.settle(config, main=False)
        place = Path(self.base.root) / self.base.name / "tables" / self.spec.name / row.name
        policy = _policy(row, config, folder)
        result = asyncio.run(evaluate_policy(config, policy, bank_snapshot(config, folder), place))
        self.evaluated[row.name] = result
        return from_eval(row, result, {panel: read_values(place, panel, row.mode) for panel in result["panels"]})

    def _stream(self, row: RowSpec) -> RowResult:
        from mh_train.stages import stream

        config = _config(row, self.base, self.settings)
        config.stream.methods, config.stream.noise = [row.method], [row.noise]
        config.stream.shared = [*config.stream.shared, *self.spec.memory, *row.memory]
        [method] = stream.methods(config.stream)
        self.streamed.append(replace(method, name=row.name))
        check_budgets(self.streamed, self.spec.vary)
        folder = parts.settle(config)
        asyncio.run(stream.run_streams(config, folder))
        found: dict[int, list[dict[str, Any]]] = {}
        tasks = []
        for seed in config.stream.seeds:
            path = folder.path / "stream" / f"{method.name}-s{seed}" / "rows.jsonl"
            head, *found[seed] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            tasks.append(f"{seed}:{head['tasks']}")
        return from_stream(row, found, " ".join(sorted(tasks)))


def check_budgets(methods: Sequence[Method], vary: Sequence[str]) -> None:
    """Raise `EvaluationError` when stream rows differ in a budget that the table does not vary."""
    given = {name: getattr(methods[0].memory, name) for name in vary}
    check_stream([replace(method, memory=replace(method.memory, **given)) for method in methods])


def _config(row: RowSpec, base: RunConfig, settings: Sequence[str]) -> RunConfig:
    """The settings of a row's run: those of the base run, or of the run of its own, `<name>-<row>`."""
    if row.method:
        return compose([*settings, f"name={base.name}-{row.name}"])
    own = [*row.train, f"name={base.name}-{row.name}"] if row.train else []
    return compose([*settings, *own, f"evaluate.modes=[{row.mode}]"])


def _policy(row: RowSpec, config: RunConfig, folder: RunFolder) -> str:
    if row.policy == "base":
        if config.model.path == "tiny":
            raise ConfigError("model=tiny has no base model")
        return config.model.path
    if row.policy == "cold_start":
        if not (folder.sft_model / "config.json").is_file():
            raise ConfigError(f"there is no cold start in {folder.sft_model}")
        return str(folder.sft_model)
    return source(config, folder)


def _command(row: RowSpec, base: RunConfig, settings: Sequence[str]) -> str:
    """What makes or plays the row by hand."""
    told = " ".join(settings)
    if row.train:
        return f"mh-train run {told} {' '.join(row.train)} name={base.name}-{row.name}"
    if row.method:
        noise = f" stream.noise=[{row.noise:g}]" if row.noise else ""
        memory = f" stream.shared=[{','.join(row.memory)}]" if row.memory else ""
        return f"mh-train stream {told} stream.methods=[{row.method}]{noise}{memory} name={base.name}-{row.name}"
    return f"mh-train eval {told} evaluate.modes=[{row.mode}]"
