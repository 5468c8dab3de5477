"""Train: roll out, reward, keep memories, update the policy; again and again.

Why: this is the loop of the papers, and it should be readable on one screen. Invariants: a checkpoint holds everything, so a
run that is killed anywhere continues as if nothing had happened (bit-equal on a CPU); the bank changes only between
rollouts; finished updates are never lost.
Run: `mh-train grpo experiment=quickstart`; the same command resumes.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from accelerate import Accelerator

from envs.pool import EnvPool
from mh_train.agent.reward import score_trajectory
from mh_train.config import RunConfig
from mh_train.config.schema import Use
from mh_train.evaluate.modes import mode_of
from mh_train.learn.advantage import compute_advantages
from mh_train.learn.checkpoint import latest, save
from mh_train.learn.export import export_model
from mh_train.learn.learner import Learner
from mh_train.learn.lora import add_lora
from mh_train.learn.rows import rows_from_trajectories
from mh_train.memory.bank import Bank
from mh_train.memory.curate import curate
from mh_train.memory.reader import BankReader
from mh_train.memory.snapshot import save_snapshot
from mh_train.rollout.panels import TaskCursor, make_panel
from mh_train.rollout.runner import rollout
from mh_train.rollout.writer import write_trajectories
from mh_train.run.folder import RunFolder
from mh_train.run.metrics import Metrics
from mh_train.run.progress import bar, say
from mh_train.stages import parts


@dataclass
class Training:
    """Everything that lives from update to update. `update` is the last finished one."""

    config: RunConfig
    folder: RunFolder
    policy: parts.Policy
    learner: Learner
    cursor: TaskCursor
    bank: Bank | None
    metrics: Metrics
    update: int = 0


def main(config: RunConfig) -> None:
    """Train for `learn.updates` updates, from the last checkpoint when there is one."""
    folder = parts.settle(config)
    training = begin(config, folder)
    try:
        asyncio.run(train(training))
    finally:
        training.metrics.close()
        if training.bank is not None:
            training.bank.close()


async def train(run: Training) -> None:
    """The loop."""
    config = run.config
    async with parts.pool(config) as pool:
        with bar("grpo", config.learn.updates - run.update) as progress:
            while run.update < config.learn.updates:
                values = await one_update(run, pool)
                run.update += 1
                run.metrics.log(run.update, values)
                progress.advance(headline(values))
                if run.update % config.learn.checkpoint.every == 0 or run.update == config.learn.updates:
                    checkpoint(run)
    export_model(run.learner.model, run.policy.tokenizer, run.folder.model, config)


async def one_update(run: Training, pool: EnvPool) -> dict[str, float]:
    """Roll out -> reward -> memories -> policy; the metrics of one update."""
    config, policy, update = run.config, run.policy, run.update + 1
    started = time.perf_counter()
    reader = None if run.bank is None else BankReader(run.bank.view(), run.bank.embedder, config.memory, training=True)
    tasks = run.cursor.next(config.rollout.tasks)
    result = await rollout(config, tasks, pool, policy.speaker, policy.engine, policy.prompts, reader, update)
    advantages, spread = compute_advantages(result.trajectories, config.learn)
    rows = rows_from_trajectories(result.trajectories, advantages, config.learn.train_reconstruct)
    values = {**result.metrics, **spread}
    if run.bank is not None:
        values |= await curate(
            run.bank, result.trajectories, policy.speaker, policy.engine, policy.prompts, config.memory, config.seed, update
        )
    write_trajectories(run.folder.trajectories / f"update-{update:05d}.jsonl", result.trajectories)
    values |= run.learner.update(rows, update, config.rollout.temperature)
    values |= await policy.engine.sync(run.learner.model, update)
    values["time/update_s"] = time.perf_counter() - started
    return values
