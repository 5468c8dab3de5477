"""The best checkpoint of a run: evaluation on a panel of its own during training (SPEC 7: checkpoints are chosen on a
panel that is not the reported one).

Why: the last policy of a reinforcement-learning run need not be its best. Invariants: evaluation reads the bank's
present view and draws its own noise, so training goes on bit for bit as it would without; the best so far is part of
every checkpoint's state, so a resumed run chooses as an uninterrupted one.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from envs.pool import EnvPool
from mh_train.agent.types import MemoryReader
from mh_train.config import ConfigError, RunConfig
from mh_train.config.schema import Select, Trigger, Use
from mh_train.evaluate.results import PER_EPISODE, dropped_row, episode_row
from mh_train.files import write_json
from mh_train.learn.checkpoint import Checkpoint, latest, open_checkpoint
from mh_train.learn.ranks import Ranks
from mh_train.rollout.panels import make_panel
from mh_train.rollout.play import merge, play
from mh_train.rollout.rules import evaluation_rules
from mh_train.run.folder import RunFolder
from mh_train.stages import parts

Best = dict[str, Any]
"""{"update", "success"} of the best evaluation so far; empty before the first one."""
EXPORTED = "training.json"
"""In the exported model's folder: the update it was taken from."""


async def evaluate_now(
    config: RunConfig, pool: EnvPool, policy: parts.Policy, reader: MemoryReader | None, ranks: Ranks, update: int
) -> dict[str, float]:
    """Play `evaluate.every_panel` once with the run's own use of memory; metrics `eval/...`. Called on every rank."""
    started = time.perf_counter()
    panel = make_panel(
        parts.environment(config), config.evaluate.every_panel, config.env.options, config.evaluate.every_limit
    )
    use, trigger = (config.memory.use, config.memory.trigger) if reader is not None else (Use.none, Trigger.off)
    share = await play(
        evaluation_rules(config, use, trigger, 0, f"eval-u{update:05d}"),
        panel.tasks,
        pool,
        policy.prompts,
        lambda spec: policy.speaker,
        lambda spec: reader,
        policy.engine.expect,
        share=ranks.share,
    )
    played = merge(ranks.everyone(share))
    policy.engine.take_stats()  # the next update counts its own tokens
    found = {trajectory.task_id: episode_row(trajectory) for trajectory in played.trajectories}
    rows = [found.get(task.id) or dropped_row(task.id, task.type) for task in panel.tasks]
    values = {f"eval/{name}": fmean(float(row[name]) for row in rows) for name in ("success", *PER_EPISODE)}
    return {**values, "eval/tasks": float(len(rows)), "time/eval_s": time.perf_counter() - started}


def better(best: Best, update: int, success: float) -> Best:
    """The best after one more evaluation; of equals the earlier stays."""
    return best if best and best["success"] >= success else {"update": update, "success": success}


def chosen(folder: Path, select: Select) -> Checkpoint | None:
    """The checkpoint that `learn.checkpoint.select` takes; None when there is none at all.

    Raises `ConfigError` for `best` when training never evaluated."""
    newest = latest(folder)
    if newest is None or select is Select.last:
        return newest
    best = newest.state.get("best")
    if not best:
        raise ConfigError(
            "learn.checkpoint.select=best, but this run has evaluated no checkpoint; train it with evaluate.every, or "
            "use select=last."
        )
    return open_checkpoint(folder / f"update-{best['update']:06d}")


def note_export(model: Path, update: int) -> None:
    """Leave beside an exported model which update it is of."""
    write_json(model / EXPORTED, {"update": update})


def bank_of(config: RunConfig, folder: RunFolder) -> Path | None:
    """The bank snapshot that belongs to the exported model: that of the chosen checkpoint.

    Raises `ConfigError` when the export is of another checkpoint than `learn.checkpoint.select` takes now."""
    found = chosen(folder.checkpoints, config.learn.checkpoint.select)
    note = folder.model / EXPORTED
    exported = json.loads(note.read_text("utf-8"))["update"] if note.is_file() else None
    if found is not None and exported not in (None, found.update):
        raise ConfigError(
            f"{folder.model} is the policy after update {exported}, learn.checkpoint.select="
            f"{config.learn.checkpoint.select.value} takes the one after update {found.update}; run `mh-train grpo` "
            "again, which exports it."
        )
    snapshot = None if found is None else found.path / "bank"
    return snapshot if snapshot is not None and snapshot.is_dir() else None
