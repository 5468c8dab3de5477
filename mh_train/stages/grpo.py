"""Train: roll out, reward, keep memories, update the policy; again and again.

Why: this is the loop of the papers, and it should be readable on one screen. Invariants: a checkpoint holds everything,
so a run that is killed anywhere continues as if nothing had happened (bit-equal on a CPU); the bank changes only
between rollouts; finished updates are never lost. With several processes (`accelerate launch`, `torchrun`) each plays
its share of the groups and all of them learn; rank 0 owns bank, metrics, trajectories and checkpoints.
Run: `mh-train grpo experiment=quickstart`; the same command resumes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from functools import partial
from statistics import fmean
from typing import Any

from envs.pool import EnvPool
from mh_train.config import RunConfig
from mh_train.evaluate.behaviour import training_metrics
from mh_train.learn.advantage import compute_advantages
from mh_train.learn.ranks import Ranks, make_accelerator, told
from mh_train.learn.rows import rows_from_trajectories
from mh_train.memory.curate import curate
from mh_train.memory.reader import ReaderStats
from mh_train.rollout.play import merge
from mh_train.rollout.runner import rollout
from mh_train.rollout.writer import write_trajectories
from mh_train.run.dashboard import dashboard
from mh_train.stages import parts
from mh_train.stages.flights import Flights, staleness
from mh_train.stages.push import push_weights
from mh_train.stages.selection import better, evaluate_now
from mh_train.stages.training import Flight, Training, bank_reader, begin, checkpoint, export


def main(config: RunConfig) -> None:
    """Train for `learn.updates` updates, from the last checkpoint when there is one."""
    ranks = Ranks(make_accelerator(config.learn.grad_clip))
    folder = parts.settle(config, ranks.main)
    with told():
        training = begin(config, folder, ranks)
        try:
            asyncio.run(train(training))
        finally:
            for owned in (training.metrics, training.bank):
                if owned is not None:
                    owned.close()


async def train(run: Training) -> None:
    """The loop."""
    config = run.config
    async with parts.pool(config) as pool, run.policy.engine, AsyncExitStack() as stack:
        await push_weights(config, run.policy.engine, run.learner, run.update)
        run.flights = Flights(partial(begin_rollout, run, pool), config.rollout.max_staleness, config.learn.updates)
        stack.push_async_callback(run.flights.cancel)
        with dashboard("grpo", config.learn.updates, run.update) as progress:
            while run.update < config.learn.updates:
                values = await one_update(run, pool)
                run.update += 1
                evaluated = bool(config.evaluate.every) and run.update % config.evaluate.every == 0
                if evaluated:
                    reader = bank_reader(run, training=False)
                    values |= await evaluate_now(config, pool, run.policy, reader, run.ranks, run.update)
                    run.best = better(run.best, run.update, values["eval/success"])
                if run.metrics is not None:
                    run.metrics.log(run.update, values)
                progress.advance(values)
                due = run.update % config.learn.checkpoint.every == 0 or run.update == config.learn.updates
                if due or evaluated:
                    checkpoint(run)
    export(run)


async def one_update(run: Training, pool: EnvPool) -> dict[str, float]:
    """Roll out -> reward -> memories -> policy; the metrics of one update."""
    config, policy, ranks, update = run.config, run.policy, run.ranks, run.update + 1
    started = time.perf_counter()
    assert run.flights is not None
    flight = await run.flights.land(run.update)
    # exchanged here, not in flight: all ranks in one order; beside the loop: it plays on while other ranks are awaited
    result = merge(await asyncio.to_thread(ranks.everyone, flight.result))
    reader, voice = flight.reader, (policy.speaker, policy.engine, policy.prompts)
    waited = time.perf_counter() - started
    advantages, values = compute_advantages(result.trajectories, config.learn)
    for trajectory, advantage in zip(result.trajectories, advantages, strict=True):
        trajectory.advantage = advantage if isinstance(advantage, float) else fmean(advantage)
    values |= result.metrics | training_metrics(result.trajectories)
    if reader is not None:
        values |= ReaderStats.total(ranks.everyone(reader.stats)).metrics()
    if run.bank is not None:
        values |= await curate(run.bank, result.trajectories, *voice, config.memory, config.seed, update, run.judge)
    run.view = await asyncio.to_thread(ranks.from_main, None if run.bank is None else run.bank.view())
    if ranks.main:
        write_trajectories(run.folder.trajectories / f"update-{update:05d}.jsonl", result.trajectories)
    rows = rows_from_trajectories(result.trajectories, advantages, config.learn.train_reconstruct)
    if config.rollout.max_staleness:
        values |= staleness(result.trajectories, update) | {"time/wait_s": waited}
        values |= await asyncio.to_thread(run.learner.update, rows, update, config.rollout.temperature)
    else:
        await policy.engine.sleep()
        values |= run.learner.update(rows, update, config.rollout.temperature)
    values |= await push_weights(config, policy.engine, run.learner, update)
    stats = ranks.everyone(policy.engine.take_stats())
    seconds = max(each.seconds for each in stats)
    generated = {"time/generate_s": seconds, "time/update_s": time.perf_counter() - started}
    return {**values, **generated, "time/tokens_per_s": sum(s.completion_tokens for s in stats) / max(seconds, 1e-9)}


def begin_rollout(run: Training, pool: EnvPool, update: int) -> Coroutine[Any, Any, Flight]:
    """Draw the tasks of an update and freeze what its episodes see of the bank; the coroutine plays them."""
    config, ranks, policy = run.config, run.ranks, run.policy
    run.cursors = {u: state for u, state in run.cursors.items() if u > run.update} | {update: run.cursor.state_dict()}
    tasks = run.cursor.next(config.rollout.tasks)
    reader = bank_reader(run, training=True)

    async def fly() -> Flight:
        voice = (policy.speaker, policy.engine, policy.prompts)
        return Flight(await rollout(config, tasks, pool, *voice, reader, update, share=ranks.share), reader)

    return fly()
