"""Rollouts under way: which may start, and which one the learner takes next.

Why: one loop for synchronous and asynchronous training. With `rollout.max_staleness` 0 a rollout starts when the update
before it is done; with n > 0, up to n + 1 rollouts are under way, so that generation goes on while the learner works.
Invariants: rollouts are taken in order and each exactly once; the rollout of update u starts with the weights of update
u - 1 - max_staleness or newer; what it draws from the task cursor is drawn when it starts, in order.
Measure: `python tests/bench/bench_async.py`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from mh_train.agent.types import Trajectory

Result = TypeVar("Result")


class Flights(Generic[Result]):
    """`start(update)` prepares the rollout of an update and returns the coroutine that plays it; `last` is the last."""

    def __init__(self, start: Callable[[int], Coroutine[Any, Any, Result]], ahead: int, last: int) -> None:
        self._start, self._ahead, self._last = start, ahead, last
        self._under_way: deque[asyncio.Task[Result]] = deque()

    async def land(self, done: int) -> Result:
        """The rollout of update `done` + 1, when it is finished; every rollout that now may start is started before."""
        first = done + 1 + len(self._under_way)
        for update in range(first, min(done + 1 + self._ahead, self._last) + 1):
            self._under_way.append(asyncio.create_task(self._start(update)))
        return await self._under_way.popleft()

    async def cancel(self) -> None:
        """End what is under way."""
        tasks = list(self._under_way)
        self._under_way.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def staleness(trajectories: Sequence[Trajectory], update: int) -> dict[str, float]:
    """How old the weights were that episodes were played with: `extra["weights"]` is (update at start, at end).

    `async/staleness` counts updates between the weights an episode began with and those it trains; `async/mixed` is the
    share of episodes that saw new weights on their way."""
    seen = [trajectory.extra["weights"] for trajectory in trajectories]
    ages = [update - 1 - began for began, _ in seen]
    return {
        "async/staleness": sum(ages) / len(ages),
        "async/staleness_max": float(max(ages)),
        "async/mixed": sum(began != ended for began, ended in seen) / len(seen),
    }
