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
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

from envs.pool import EnvPool
from mh_train.config import ConfigError, RunConfig
from mh_train.config.schema import Select, Use
from mh_train.evaluate.behaviour import training_metrics
from mh_train.learn.advantage import compute_advantages
from mh_train.learn.checkpoint import latest, restore, save
from mh_train.learn.export import ModelCard, export_model
from mh_train.learn.learner import Learner
from mh_train.learn.lora import add_lora
from mh_train.learn.ranks import Ranks, make_accelerator, told
from mh_train.learn.rows import rows_from_trajectories
from mh_train.learn.sharding import whole_weights
from mh_train.memory.bank import Bank
from mh_train.memory.curate import curate
from mh_train.memory.embed import Embedder, make_embedder
from mh_train.memory.judge import Judge
from mh_train.memory.reader import BankReader, ReaderStats
from mh_train.memory.snapshot import save_snapshot
from mh_train.memory.view import BankView
from mh_train.rollout.panels import TaskCursor, make_panel
from mh_train.rollout.play import RolloutResult, merge
from mh_train.rollout.runner import rollout
from mh_train.rollout.writer import write_trajectories
from mh_train.run.dashboard import dashboard
from mh_train.run.folder import RunFolder, versions
from mh_train.run.metrics import Metrics
from mh_train.run.progress import say
from mh_train.stages import parts
from mh_train.stages.actors import WITHOUT_MODEL
from mh_train.stages.flights import Flights, staleness
from mh_train.stages.others import external_speaker, other_judge
from mh_train.stages.push import push_weights
from mh_train.stages.selection import Best, better, chosen, evaluate_now, note_export


@dataclass
class Training:
    """Everything that lives from update to update. `update` is the last finished one.

    Rank 0 alone has `bank`, `metrics` and `judge` (None: the policy judges, or nobody); every rank has `view`, what
    episodes see of the bank (None: no memory)."""

    config: RunConfig
    folder: RunFolder
    ranks: Ranks
    policy: parts.Policy
    learner: Learner
    cursor: TaskCursor
    embedder: Embedder | None
    bank: Bank | None
    metrics: Metrics | None
    judge: Judge | None = None
    view: BankView | None = None
    update: int = 0
    best: Best = field(default_factory=dict)
    cursors: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Where the cursor stood before the tasks of an update were drawn, for rollouts that are not trained on yet."""
    flights: Flights[Flight] | None = None


@dataclass
class Flight:
    """A finished rollout, and the door to memory that its episodes had."""

    result: RolloutResult
    reader: BankReader | None


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
        with dashboard("grpo", config.learn.updates - run.update) as progress:
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


def export(run: Training) -> None:
    """Write the policy that `learn.checkpoint.select` takes to `<run>/model`. Called on every rank."""
    config, update = run.config, run.update
    if config.learn.checkpoint.select is Select.best:
        found = chosen(run.folder.checkpoints, Select.best)
        if found is not None:
            restore(found, run.learner)
            update = found.update
    weights = whole_weights(run.learner.model, run.ranks.main) if run.learner.sharded else None
    if run.ranks.main:
        card = ModelCard(config.name, config.model.path, config.env.name, update, versions=versions())
        export_model(run.learner.model, run.policy.tokenizer, run.folder.model, card, weights=weights)
        note_export(run.folder.model, update)


async def one_update(run: Training, pool: EnvPool) -> dict[str, float]:
    """Roll out -> reward -> memories -> policy; the metrics of one update."""
    config, policy, ranks, update = run.config, run.policy, run.ranks, run.update + 1
    started = time.perf_counter()
    assert run.flights is not None
    flight = await run.flights.land(run.update)
    result = merge(ranks.everyone(flight.result))  # here, not in flight: ranks must exchange in one order
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
    run.view = ranks.from_main(None if run.bank is None else run.bank.view())
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


def bank_reader(run: Training, training: bool) -> BankReader | None:
    """A door to the bank as it is now; None for a run without memory."""
    if run.view is None or run.embedder is None:
        return None
    moving = run.config.rollout.max_staleness > 0  # a mirror that moves on during a rollout gives other answers
    search = None if run.bank is None or moving else run.bank.search()
    return BankReader(run.view, run.embedder, run.config.memory, training=training, search=search)


def begin(config: RunConfig, folder: RunFolder, ranks: Ranks) -> Training:
    """A new training, or the one that the newest intact checkpoint holds."""
    if config.engine.name in WITHOUT_MODEL:
        raise ConfigError(f"engine={config.engine.name} holds no weights to train; choose transformers or vllm.")
    if ranks.count > 1 and config.rollout.max_staleness:
        raise ConfigError("rollout.max_staleness above 0 needs a single trainer process for now; set it to 0.")
    policy = parts.policy(config, parts.start_policy(config, folder))
    policy.model = add_lora(policy.model, config.model.lora, config.seed)
    if config.memory.use is Use.external:
        policy.speaker = external_speaker(config, policy.engine)
    learner = Learner(policy.model, config.learn, ranks.accelerator, config.seed)
    panel = make_panel(parts.environment(config), config.env.train_split, config.env.options)
    cursor = TaskCursor(panel, config.seed)
    found = latest(folder.checkpoints)
    parts.check_shared_folder(ranks, folder, found.update if found else 0)
    embedder = None if config.memory.use is Use.none else make_embedder(config.memory.embedder)
    bank, metrics = None, None
    if ranks.main:
        bank = parts.open_bank(config, folder, found.path / "bank" if found else None, embedder)
        metrics = Metrics(folder, config, found.state["tracker"] if found else "")
    judge = other_judge(config) if ranks.main else None
    run = Training(config, folder, ranks, policy, learner, cursor, embedder, bank, metrics, judge)
    if found:
        restore(found, learner)
        cursor.load_state_dict(found.state["cursor"])
        run.update, run.best = found.update, found.state.get("best", {})
        say(f"grpo     continues after update {found.update}")
    if metrics is not None:
        metrics.rewind(run.update)
    run.view = ranks.from_main(None if bank is None else bank.view())
    return run


def checkpoint(run: Training) -> None:
    """Everything that the next update depends on. Called on every rank."""
    bank = run.bank
    cursor = run.cursors.get(run.update + 1) or run.cursor.state_dict()
    state = {"cursor": cursor, "tracker": run.metrics.run_id if run.metrics is not None else "", "best": run.best}
    pinned = [run.best["update"]] if run.best else []
    writers = {} if bank is None else {"bank": partial(save_snapshot, bank)}
    save(run.folder.checkpoints, run.update, run.learner, state, run.config.learn.checkpoint, writers, pinned)
