"""Evaluate the run's policy: fixed panels, every mode, the bank read-only; a table and `<run>/eval/eval.json`.

Why: the numbers a paper reports. Invariant: finished cells are kept, so the same command continues, and a second run
writes the same bytes. With a cold start in the run folder that policy is evaluated too, as the starting point.
Run: `mh-train eval experiment=quickstart`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from mh_train.config import ConfigError, RunConfig
from mh_train.evaluate.runner import Cell, Parts, evaluate, read_values
from mh_train.evaluate.statistics import paired_bootstrap
from mh_train.evaluate.table import terminal
from mh_train.learn.checkpoint import latest
from mh_train.memory.embed import make_embedder
from mh_train.memory.reader import BankReader
from mh_train.memory.snapshot import load_view
from mh_train.rollout.panels import make_panel
from mh_train.rollout.runner import EmptyMemory
from mh_train.run.folder import RunFolder, versions
from mh_train.run.progress import bar, say
from mh_train.stages import parts

COLD_START_MODES = ("memory", "empty")
"""What the cold start is evaluated in: the starting points that training is measured against."""


def main(config: RunConfig) -> None:
    """Evaluate the trained policy, and the cold start it began with when there is one; print the tables."""
    folder = parts.settle(config)
    bank = bank_snapshot(config, folder)
    trained = asyncio.run(evaluate_policy(config, folder.model, bank, folder.evaluation))
    Console().print(terminal(trained))
    if not (folder.sft_model / "config.json").is_file():
        return
    modes = [mode for mode in COLD_START_MODES if mode in config.evaluate.modes]
    start_config = replace(config, evaluate=replace(config.evaluate, modes=modes))
    start = folder.evaluation / "cold_start"
    asyncio.run(evaluate_policy(start_config, folder.sft_model, bank, start))
    compare_with_start(config, folder.evaluation, start, modes)
    say(f"run folder: {folder.path}")


async def evaluate_policy(config: RunConfig, model: Path, bank: Path | None, folder: Path) -> dict[str, Any]:
    """`eval.json` of one policy over the panels, modes and seeds of the config."""
    if not (model / "config.json").is_file():
        raise ConfigError(f"There is no policy in {model}; run `mh-train grpo name={config.name}` first.")
    policy = parts.policy(config, model)
    env_class = parts.environment(config)
    panels = [make_panel(env_class, name, config.env.options, config.evaluate.limit) for name in config.evaluate.panels]
    embedder = make_embedder(config.memory.embedder)
    view = None if bank is None else load_view(bank, embedder)
    cells = len(panels) * len(config.evaluate.modes) * len(config.evaluate.seeds)
    async with parts.pool(config) as pool:
        with bar(f"eval {folder.name}", cells) as progress:

            def report(cell: Cell, summary: Mapping[str, Any]) -> None:
                progress.advance({cell.panel.name: cell.mode.name, "success": summary["success"]["mean"]})

            return await evaluate(
                config,
                panels,
                Parts(
                    pool,
                    policy.prompts,
                    lambda spec: policy.speaker,
                    EmptyMemory() if view is None else BankReader(view, embedder, config.memory),
                    {} if view is None else {record.id: record.source_state for record in view.records},
                    lambda: "" if bank is None else folder_digest(bank),
                    policy.engine.expect,
                ),
                folder,
                {"versions": versions(), "policy": folder_digest(model)},
                report,
            )


def bank_snapshot(config: RunConfig, folder: RunFolder) -> Path | None:
    """The bank that evaluation reads: `evaluate.bank`, or that of the last checkpoint."""
    if config.evaluate.bank:
        return Path(config.evaluate.bank)
    found = latest(folder.checkpoints)
    snapshot = None if found is None else found.path / "bank"
    return snapshot if snapshot is not None and snapshot.is_dir() else None


def compare_with_start(config: RunConfig, trained: Path, start: Path, modes: list[str]) -> None:
    """Print what training gained over the cold start, task by task, with its 95 % interval."""
    for panel in config.evaluate.panels:
        for mode in modes:
            gain = paired_bootstrap(read_values(trained, panel, mode), read_values(start, panel, mode), config.seed)
            say(f"{panel}, {mode}: trained - cold start = {gain.difference:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]")


def folder_digest(folder: Path) -> str:
    """SHA-256 over names and bytes of a folder's files."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
