"""A stream of tasks with a bank that begins empty, is updated after every task and never sees a hidden label.

Why: MemGuard's question is not how good a finished bank is but how it fares while it grows: success, size and harmful
injections, cumulated at 20 to 100 % of the stream, of several methods side by side (MemGuard C.1, C.4).
Invariants: all methods meet the same tasks in the same order, with the same budgets and, for a scripted agent, the same
noise; the bank gets copies of the trajectories from which outcome, score and reward are struck out; a checkpoint holds
rows and bank as of one task, so that a stream that was killed continues there and ends with the same bytes.
Run: `mh-train stream experiment=stream_alfworld`.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from envs.base import Task
from envs.pool import EnvPool
from mh_train.agent.prompts import Prompts
from mh_train.agent.speaker import Speaker
from mh_train.agent.types import MemoryHit, Trajectory
from mh_train.config.schema import MemoryConfig, Outcome, RunConfig, Use
from mh_train.engine.base import Engine
from mh_train.evaluate.harm import Truth
from mh_train.evaluate.statistics import EvaluationError
from mh_train.files import write_jsonl
from mh_train.memory.bank import Bank
from mh_train.memory.curate import curate
from mh_train.memory.embed import Embedder
from mh_train.memory.reader import BankReader
from mh_train.rollout.panels import Panel, RolloutError
from mh_train.rollout.play import Voice, play
from mh_train.rollout.rules import evaluation_rules

log = logging.getLogger(__name__)
SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
"""Where checkpoints lie (MemGuard C.1)."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Method:
    """A named way to keep memories."""

    name: str
    memory: MemoryConfig


@dataclass(frozen=True)
class Cell:
    """One stream: a method over one seed's tasks."""

    method: Method
    seed: int
    panel: Panel

    @property
    def folder(self) -> str:
        """Name of its folder."""
        return f"{self.method.name}-s{self.seed}"


@dataclass(frozen=True)
class Parts:
    """What streams are played with: `voice(seed)` speaks in episodes; `speaker` and `engine` judge and word memories;
    `truth` tells harmful injections after the fact (None: they are not counted)."""

    pool: EnvPool
    prompts: Prompts
    voice: Callable[[int], Voice]
    speaker: Speaker
    engine: Engine
    embedder: Embedder
    truth: Truth | None


def check_comparable(methods: Sequence[Method]) -> None:
    """Raise `EvaluationError` unless all banks live without hidden labels and under the same budgets."""
    banks = [method for method in methods if method.memory.use is not Use.none]
    for method in banks:
        if method.memory.outcome is not Outcome.verifier:
            raise EvaluationError(
                f"Method {method.name} counts success by the environment's hidden outcome; a stream needs "
                "memory.outcome=verifier."
            )
    budgets = {method.name: _budgets(method.memory) for method in banks}
    for name, found in budgets.items():
        first = next(iter(budgets.values()))
        for key, value in found.items():
            if value != first[key]:
                raise EvaluationError(
                    f"Methods differ in memory.{key} ({value} for {name}, {first[key]} for {banks[0].name}); set it "
                    "for all of them in stream.shared."
                )


def _budgets(memory: MemoryConfig) -> dict[str, Any]:
    names = ("use", "trigger", "k", "max_retrievals", "budget", "retrieval_costs_step")
    scoring = {f"scoring.{name}": getattr(memory.scoring, name) for name in ("summaries", "guards")}
    return {name: getattr(memory, name) for name in names} | scoring | {"embedder": asdict(memory.embedder)}


async def play_cell(
    config: RunConfig,
    cell: Cell,
    parts: Parts,
    root: Path,
    about: Mapping[str, Any],
    on_checkpoint: Callable[[list[Row]], None] = lambda rows: None,
) -> list[Row]:
    """One row per task of a stream, in order. What earlier checkpoints hold for the same settings is kept.

    `about` names what decides the outcome besides the method, the seed and the tasks. `on_checkpoint` hears the rows
    so far at each checkpoint, kept ones included."""
    folder = root / cell.folder
    head = {"method": cell.method.name, "seed": cell.seed, "tasks": cell.panel.hash, "digest": _digest(cell, about)}
    rows, offset = _kept(folder / "rows.jsonl", head)
    ends = [round(share * len(cell.panel.tasks)) for share in SHARES]
    if rows:
        on_checkpoint(rows)
    if len(rows) == ends[-1]:
        return rows
    memory = cell.method.memory
    bank = None if memory.use is Use.none else Bank(memory, parts.embedder, folder / "bank", cell.folder, keep=offset)
    try:
        for number in range(len(rows), ends[-1]):
            rows.append(await _one_task(config, cell, parts, bank, number, rows))
            if len(rows) in ends:
                at = 0 if bank is None else bank.journal.offset
                write_jsonl(folder / "rows.jsonl", [{**head, "journal": at}, *rows])
                on_checkpoint(rows)
    finally:
        if bank is not None:
            bank.close()
    return rows


async def _one_task(
    config: RunConfig, cell: Cell, parts: Parts, bank: Bank | None, number: int, earlier: Sequence[Row]
) -> Row:
    """Play a task with the bank as it is, note what happened, update the bank."""
    memory, task = cell.method.memory, cell.panel.tasks[number]
    run = replace(config, memory=memory)
    rules = evaluation_rules(run, memory.use, memory.trigger, cell.seed, f"s{cell.seed}-t{number:05d}")
    reader = None if bank is None else BankReader(bank.view(), parts.embedder, memory)
    try:
        played = await play(rules, [task], parts.pool, parts.prompts, parts.voice(cell.seed), lambda spec: reader)
    except RolloutError as error:
        log.warning("Task %s counts as failed: %s", task.id, error)
        return _row(task, None, bank, parts.truth, earlier)
    (episode,) = played.trajectories
    row = _row(task, episode, bank, parts.truth, earlier)
    if bank is not None:
        await curate(
            bank, [blind(episode)], parts.speaker, parts.engine, parts.prompts, memory, cell.seed, update=number
        )
        row |= {"active": sum(r.retrievable for r in bank.records.values()), "total": len(bank.records)}
    return row


def blind(episode: Trajectory) -> Trajectory:
    """The episode without what only the evaluator knows."""
    return replace(episode, won=False, score=0.0, reward=0.0, reward_parts={}, advantage=0.0)


def _row(task: Task, episode: Trajectory | None, bank: Bank | None, truth: Truth | None, earlier: Sequence[Row]) -> Row:
    """What the experimenter notes about one task; each record counts once per episode.

    `unfounded` counts injected advice none of whose source episodes was in truth a success."""
    won = {row["id"]: row["success"] for row in earlier}
    hits: dict[str, MemoryHit] = {}
    for retrieval in episode.retrievals if episode else ():
        hits.update({hit.record_id: hit for hit in retrieval.hits})
    advice = [hit for hit in hits.values() if hit.role != "guard"]
    records = [bank.records[hit.record_id] for hit in advice] if bank else []
    return {
        "id": episode.id if episode else "",
        "task": task.id,
        "type": task.type,
        "dropped": episode is None,
        "success": float(episode.won) if episode else 0.0,
        "steps": len(episode.steps) if episode else 0,
        "injected": len(advice),
        "guards": len(hits) - len(advice),
        "harmful": sum(truth.contradicts(episode, hit) for hit in advice) if truth and episode else 0,
        "unfounded": sum(not any(won.get(source.trajectory) for source in r.provenance) for r in records),
        "active": earlier[-1]["active"] if earlier else 0,
        "total": earlier[-1]["total"] if earlier else 0,
    }


def _kept(path: Path, head: Mapping[str, Any]) -> tuple[list[Row], int]:
    """Rows of the last checkpoint with these settings and the bank's journal offset there."""
    if not path.is_file():
        return [], 0
    found, *rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    at = found.pop("journal")
    return (rows, at) if found == head else ([], 0)


def _digest(cell: Cell, about: Mapping[str, Any]) -> str:
    told = json.dumps({**about, "memory": asdict(cell.method.memory)}, sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()[:16]
