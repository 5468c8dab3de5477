"""Evaluation modes: the same policy and tasks, one thing changed about memory (SPEC 7).

Why: what reconstruction is worth shows only beside replaying the same records, hiding their source states, or having no
memory at all.
Invariant: a mode changes how records are used or what a reader hands out, never the bank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mh_train.agent.types import MemoryHit, MemoryQuery, MemoryReader
from mh_train.config.schema import MemoryConfig, Trigger, Use
from mh_train.engine.base import noise_key
from mh_train.evaluate.statistics import EvaluationError
from mh_train.rollout.runner import EmptyMemory


@dataclass(frozen=True)
class WithoutSource:
    """Hits without the state they were learnt in."""

    reader: MemoryReader

    async def retrieve(self, query: MemoryQuery) -> Sequence[MemoryHit]:
        """The reader's hits, source states blank."""
        return [replace(hit, source_state="") for hit in await self.reader.retrieve(query)]


@dataclass(frozen=True)
class RandomSource:
    """Hits next to the source state of another record, drawn by (seed, task, record), so the same every time.

    `sources` maps record ids to source states. The only record of a bank has none to borrow from: its state is blank.
    """

    reader: MemoryReader
    sources: Mapping[str, str]
    seed: int

    async def retrieve(self, query: MemoryQuery) -> Sequence[MemoryHit]:
        """The reader's hits, source states exchanged."""
        return [
            replace(hit, source_state=self._other(query, hit.record_id)) for hit in await self.reader.retrieve(query)
        ]

    def _other(self, query: MemoryQuery, record_id: str) -> str:
        others = sorted(self.sources.keys() - {record_id})
        if not others:
            return ""
        return self.sources[others[noise_key("source", self.seed, query.task_id, record_id) % len(others)]]


@dataclass(frozen=True)
class AskedAs:
    """Hits of a bank that was filled in environment `env`, for questions from another one."""

    reader: MemoryReader
    env: str

    async def retrieve(self, query: MemoryQuery) -> Sequence[MemoryHit]:
        """The reader's hits for the query as if it came from `env`."""
        return await self.reader.retrieve(replace(query, env=self.env))


Wrap = Callable[[MemoryReader, Mapping[str, str], int], MemoryReader]
"""(reader of the bank, record id -> source state, seed) -> the reader that episodes get."""


@dataclass(frozen=True)
class Mode:
    """`use` and `trigger` for the episodes, and what stands between them and the bank."""

    name: str
    use: Use
    trigger: Trigger
    wrap: Wrap


def mode_of(name: str, memory: MemoryConfig) -> Mode:
    """The mode of a name for a run with these memory settings.

    `memory` keeps the run's own use and trigger (a run without memory is given `reconstruct`, asked by the policy);
    the other modes change one thing of that. Raises `EvaluationError` for a name that is not in `MODES`.
    """
    if name not in MODES:
        raise EvaluationError(f"evaluate.modes holds {name}, which is unknown; choose among {', '.join(MODES)}.")
    use, wrap = MODES[name]
    if use is Use.none:
        return Mode(name, Use.none, Trigger.off, wrap)
    own = memory.use if memory.use is not Use.none else Use.reconstruct
    trigger = memory.trigger if memory.trigger is not Trigger.off else Trigger.agentic
    return Mode(name, use or own, trigger, wrap)


def _same(reader: MemoryReader, sources: Mapping[str, str], seed: int) -> MemoryReader:
    return reader


def _empty(reader: MemoryReader, sources: Mapping[str, str], seed: int) -> MemoryReader:
    return EmptyMemory()


def _without_source(reader: MemoryReader, sources: Mapping[str, str], seed: int) -> MemoryReader:
    return WithoutSource(reader)


MODES: dict[str, tuple[Use | None, Wrap]] = {
    "memory": (None, _same),
    "none": (Use.none, _empty),
    "replay": (Use.replay, _same),
    "empty": (None, _empty),
    "external": (Use.external, _same),
    "source_removed": (None, _without_source),
    "source_random": (None, RandomSource),
}
