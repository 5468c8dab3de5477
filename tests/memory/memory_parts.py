"""Small real parts that the memory tests share: records, trajectories, a bank without a mirror, a policy with set
answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mh_train.agent.speaker import TurnRequest
from mh_train.agent.types import MemoryHit, MemoryQuery, Retrieval, Step, Trajectory
from mh_train.config.schema import EmbedderConfig, MemoryConfig, MilvusConfig
from mh_train.engine.base import Completion, Engine, Request
from mh_train.memory.bank import Bank, add_event
from mh_train.memory.embed import HashingEmbedder
from mh_train.memory.records import Provenance, Record, record_id

EMBEDDER = HashingEmbedder(64)


def memory_config(**values) -> MemoryConfig:
    return MemoryConfig(milvus=MilvusConfig(enabled=False), embedder=EmbedderConfig(name="hashing", dim=64), **values)


def open_bank(folder: Path, **values) -> Bank:
    return Bank(memory_config(**values), EMBEDDER, folder)


def read_bank(folder: Path) -> Bank:
    """The bank in a folder that another one may be writing."""
    return Bank(memory_config(), EMBEDDER, folder, read_only=True)


def record(content: str, *, env: str = "toy", task: str = "t0", update: int = 0, **values) -> Record:
    name = record_id(env, task, update, content)
    return Record(
        id=values.pop("id", name),
        env=env,
        task_type=values.pop("task_type", "pick"),
        content=content,
        provenance=(Provenance("run", update, task, f"{task}-0", 0),),
        **values,
    )


def add(bank: Bank, *records: Record, update: int = 0) -> None:
    vectors = EMBEDDER.encode([r.key_text() for r in records])
    bank.apply([add_event(r, v, update, "curate", "test") for r, v in zip(records, vectors, strict=True)])
    bank.commit(update)


def query(text: str, *, env: str = "toy", task: str = "other") -> MemoryQuery:
    return MemoryQuery(text, env, task, "pick", "goal", "observation")


def trajectory(
    name: str,
    *,
    won: bool = True,
    used: Sequence[tuple[str, str]] = (),
    observations: Sequence[str] = ("a room",),
    **values,
) -> Trajectory:
    """An episode; `used` are (record id, outcome) pairs, one retrieval each."""
    steps = [Step(text, ("look", "take bread 1 from drawer 1"), "look") for text in observations]
    retrievals = [Retrieval(0, "q", (MemoryHit(one, "m", "s"),), outcome) for one, outcome in used]  # type: ignore[arg-type]
    return Trajectory(
        id=name,
        env="toy",
        split="train",
        task_id=values.pop("task_id", f"task-{name}"),
        task_type="pick",
        goal=values.pop("goal", "put bread in fridge"),
        group=0,
        episode=0,
        steps=steps,
        retrievals=retrievals,
        won=won,
        **values,
    )


@dataclass(frozen=True)
class Ids:
    """A rendered prompt."""

    ids: tuple[int, ...]
    messages: tuple = ()


class PlainPrompts:
    """Renders a distill prompt as one id; what it holds does not matter to a policy with set answers."""

    def distill(self, trajectory: Trajectory, per_trajectory: int, limit: int | None = None) -> Ids:
        return Ids((len(trajectory.steps),))


@dataclass
class Writer:
    """A policy whose answer is a function of the turn; keeps the turns it was asked."""

    answer: Callable[[TurnRequest], str]
    asked: list[TurnRequest] = field(default_factory=list)

    async def speak(self, turn: TurnRequest) -> Completion:
        self.asked.append(turn)
        return Completion((1,), (0.0,), self.answer(turn), "stop")


class Counting(Engine):
    """An engine that is only told how many callers to expect."""

    max_context = 4096

    def __init__(self) -> None:
        self.expected: list[int] = []

    async def generate(self, request: Request) -> Completion:
        raise AssertionError("the speaker answers")

    def expect(self, callers: int) -> None:
        self.expected.append(callers)


def entry(situation: str, memory: str) -> str:
    return json.dumps({"memories": [{"situation": situation, "memory": memory}]})
