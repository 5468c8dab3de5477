"""Evaluate the run's policy: fixed panels, every mode, the bank read-only; a table and `<run>/eval/eval.json`.

Why: the numbers a paper reports. Invariant: finished cells are kept, so the same command continues, and a second run
writes the same bytes. With a cold start in the run folder that policy is evaluated too, as the starting point.
Run: `mh-train eval experiment=quickstart`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from mh_train.agent.types import MemoryReader
from mh_train.config import ConfigError, RunConfig
from mh_train.config.schema import Use
from mh_train.evaluate.interop import HARNESS_FILE, harness
from mh_train.evaluate.modes import AskedAs
from mh_train.evaluate.runner import Cell, Parts, evaluate, read_values
from mh_train.evaluate.statistics import paired_bootstrap
from mh_train.evaluate.table import terminal
from mh_train.files import write_json
from mh_train.memory.embed import Embedder, make_embedder
from mh_train.memory.reader import BankReader
from mh_train.memory.snapshot import load_view
from mh_train.memory.view import BankView
from mh_train.rollout.panels import make_panel
from mh_train.rollout.play import Voice
from mh_train.rollout.runner import EmptyMemory
from mh_train.run.folder import RunFolder, versions
from mh_train.run.progress import bar, say
from mh_train.stages import parts
from mh_train.stages.actors import folder_digest, load_actor, source
from mh_train.stages.others import external_speaker
from mh_train.stages.report import REPORT_FILE, write_report
from mh_train.stages.selection import bank_of

COLD_START = "cold_start"
COLD_START_MODES = ("memory", "empty")
"""What the cold start is evaluated in: the starting points that training is measured against."""
BANKS = {"memory": "with the bank", "empty": "bank empty"}


def main(config: RunConfig) -> None:
    """Evaluate the trained policy, and the cold start it began with when there is one; print the tables."""
    folder = parts.settle(config)
    bank = bank_snapshot(config, folder)
    trained = asyncio.run(evaluate_policy(config, source(config, folder), bank, folder.evaluation))
    Console().print(terminal(trained))
    modes = [mode for mode in COLD_START_MODES if mode in config.evaluate.modes]
    if modes and (folder.sft_model / "config.json").is_file():
        start_config = replace(config, evaluate=replace(config.evaluate, modes=modes))
        start = folder.evaluation / COLD_START
        asyncio.run(evaluate_policy(start_config, folder.sft_model, bank, start))
        compare_with_start(config, folder.evaluation, start, modes)
    write_report([folder.path], folder.path / REPORT_FILE)


async def evaluate_policy(config: RunConfig, model: str | Path, bank: Path | None, folder: Path) -> dict[str, Any]:
    """`eval.json` of one policy (see `actors.source`) over the panels, modes and seeds of the config, and the same in
    the layout of lm-evaluation-harness."""
    policy, digest = load_actor(config, model)
    env_class = parts.environment(config)
    panels = [make_panel(env_class, name, config.env.options, config.evaluate.limit) for name in config.evaluate.panels]
    embedder = make_embedder(config.memory.embedder)
    view = None if bank is None else load_view(bank, embedder)
    cells = len(panels) * len(config.evaluate.modes) * len(config.evaluate.seeds)
    async with parts.pool(config) as pool, policy.engine:
        with bar("eval cold start" if folder.name == COLD_START else "eval", cells) as progress:

            def report(cell: Cell, summary: Mapping[str, Any]) -> None:
                progress.advance({cell.panel.name: cell.mode.name, "success": summary["success"]["mean"]})

            result = await evaluate(
                config,
                panels,
                Parts(
                    pool,
                    policy.prompts,
                    voice(config, policy),
                    reader(config, view, embedder),
                    {} if view is None else {record.id: record.source_state for record in view.records},
                    lambda: "" if bank is None else folder_digest(bank),
                    policy.engine.expect,
                ),
                folder,
                {"versions": versions(), "policy": digest},
                report,
            )
    write_json(folder / HARNESS_FILE, harness(result, str(model) or digest))
    return result


def reader(config: RunConfig, view: BankView | None, embedder: Embedder) -> MemoryReader:
    """What episodes read: the frozen bank, asked in the name of `evaluate.bank_env` where it is given."""
    if view is None:
        return EmptyMemory()
    own = BankReader(view, embedder, config.memory)
    if not config.evaluate.bank_env:
        return own
    asked, known = config.evaluate.bank_env, sorted({record.env for record in view.records})
    if asked not in known:
        raise ConfigError(f"evaluate.bank_env={asked}, but the bank's records are of {', '.join(known) or 'no task'}.")
    return AskedAs(own, asked)


def voice(config: RunConfig, policy: parts.Policy) -> Voice:
    """The policy; where a mode's use is `external`, with what it retrieves rewritten by `memory.reconstructor`."""
    if config.memory.use is not Use.external and "external" not in config.evaluate.modes:
        return lambda spec: policy.speaker
    external = external_speaker(config, policy.engine)
    return lambda spec: external if spec.use == Use.external.value else policy.speaker


def bank_snapshot(config: RunConfig, folder: RunFolder) -> Path | None:
    """The bank that evaluation reads: `evaluate.bank`, or that of the checkpoint whose policy is evaluated."""
    if not config.evaluate.bank:
        return bank_of(config, folder)
    if not Path(config.evaluate.bank).is_dir():
        raise ConfigError(f"evaluate.bank={config.evaluate.bank} is no folder; give a snapshot: a checkpoint's bank/.")
    return Path(config.evaluate.bank)


def compare_with_start(config: RunConfig, trained: Path, start: Path, modes: list[str]) -> None:
    """Print what training gained over the cold start, task by task, with its 95 % interval: over the cold start as it
    was, before it had memories, and over the cold start that is given the trained policy's bank."""
    for panel in config.evaluate.panels:
        for mode, begun in (("memory", "empty"), ("memory", "memory"), ("empty", "empty")):
            if {mode, begun} <= set(modes):
                gain = paired_bootstrap(
                    read_values(trained, panel, mode), read_values(start, panel, begun), config.seed
                )
                say(
                    f"{panel}: trained ({BANKS[mode]}) - cold start ({BANKS[begun]}) = {gain.difference:+.3f}, 95 % "
                    f"[{gain.low:+.3f}, {gain.high:+.3f}]"
                )
