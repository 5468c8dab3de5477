"""Environments in a few worker processes, many per process, behind one socket per worker.

Why: text engines are not thread-safe, some end their whole process, and one process per environment costs memory and
time. Calls made in the same turn of the event loop travel to a worker in one write.
Invariants: every awaited call ends, with an observation or with an `EnvFailure` that the caller handles per episode; a
dead or hung worker takes only its own calls and episodes with it and is replaced; the event loop never waits for it.

    async with EnvPool("toy", {}, workers=2, timeout_s=60) as pool:
        slot = pool.slot()
        observation = await slot.reset(task)
        observation = await slot.step("look")
        slot.release()
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol

from envs import registry
from envs.base import Observation, Task
from envs.process import EnvFailure, WorkerProcess
from envs.worker import Host, Operation

__all__ = ["EnvFailure", "EnvPool", "Slot"]


class _Home(Protocol):
    """Where environments live until it is lost."""

    lost: bool

    async def call(self, slot: int, operation: Operation, argument: Any) -> Observation: ...
    async def close(self) -> bool: ...


class Slot:
    """One environment on loan, for one episode at a time; `release` gives it back for the next one."""

    def __init__(self, pool: EnvPool, place: _Place, number: int) -> None:
        self._pool, self._place, self._number = pool, place, number
        self._home: _Home | None = None

    async def reset(self, task: Task) -> Observation:
        """Start an episode. Raises `EnvFailure`."""
        self._home = self._place.home()
        return await self._home.call(self._number, "reset", task)

    async def step(self, action: str) -> Observation:
        """Advance the episode. Raises `EnvFailure`, also when the worker was lost since the reset."""
        if self._home is None or self._home.lost:
            raise EnvFailure("died", "The worker of this episode was lost; start the episode again.", culprit=False)
        return await self._home.call(self._number, "step", action)

    def release(self) -> None:
        """Give the slot back to the pool."""
        self._home = None
        self._place.free(self)


class _Place:
    """One worker position of the pool: its current process (or this process) and the slots that live there."""

    def __init__(self, target: str, options: Mapping[str, Any], timeout_s: float, here: bool) -> None:
        self._setup = (target, dict(options))
        self._timeout_s, self._here = timeout_s, here
        self._current: _Home | None = None
        self.idle: list[Slot] = []
        self.busy = 0

    def home(self) -> _Home:
        """The living home; a lost one is replaced."""
        if self._current is None or self._current.lost:
            self._current = _Here(*self._setup) if self._here else WorkerProcess(*self._setup, self._timeout_s)
        return self._current

    def free(self, slot: Slot) -> None:
        if slot in self.idle:
            raise ValueError("This slot was released before; take a new one with pool.slot().")
        self.busy -= 1
        self.idle.append(slot)

    async def close(self) -> bool:
        return self._current is None or await self._current.close()


class _Here:
    """The in-process twin of a worker."""

    def __init__(self, target: str, options: Mapping[str, Any]) -> None:
        self._host = Host(target, options)
        self.lost = False

    async def call(self, slot: int, operation: Operation, argument: Any) -> Observation:
        await asyncio.sleep(0)  # episodes take turns here as they do over a socket
        observation, error = self._host.answer(slot, operation, argument)
        if observation is None:
            raise EnvFailure("error", error)
        return observation

    async def close(self) -> bool:
        self.lost = True
        self._host.close()
        return True


class EnvPool:
    """`workers` processes holding environments of one registered name; 0 keeps them in this process.

    `timeout_s` limits one call's own running time (not its wait for a turn); in-process calls cannot be interrupted and
    block the event loop, which is right for small pure-Python environments and for debugging only.
    """

    def __init__(self, name: str, options: Mapping[str, Any], workers: int, timeout_s: float) -> None:
        target = registry.target(name)
        self._places = [_Place(target, options, timeout_s, here=workers == 0) for _ in range(max(1, workers))]
        self._made = 0
        self.stragglers = 0
        """Workers that were killed at the close and had not ended by its time limit."""

    async def __aenter__(self) -> EnvPool:
        for place in self._places:
            place.home()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def slot(self) -> Slot:
        """A slot on the least used worker; environments of released slots are reused, never constructed again."""
        place = min(self._places, key=lambda place: place.busy)
        place.busy += 1
        if place.idle:
            return place.idle.pop()
        self._made += 1
        return Slot(self, place, self._made)

    async def close(self) -> None:
        """End the workers. Calls still running fail as "died"; a worker that will not end is counted and logged."""
        gone = await asyncio.gather(*(place.close() for place in self._places))
        self.stragglers = gone.count(False)

    @property
    def pids(self) -> list[int]:
        """Process ids of the living workers."""
        homes = [place._current for place in self._places]
        return [home.pid for home in homes if isinstance(home, WorkerProcess) and not home.lost]
