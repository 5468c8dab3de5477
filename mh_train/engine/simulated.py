"""An engine that only takes time: a latency model of continuous batching, for benchmarks of scheduling.

Why: whether episodes should wait for each other is a question of clocks, not of models; an hour of a GPU's schedule is
simulated in a second. Invariants: equal seed and requests give equal lengths and, under `run_virtual`, equal times to
the last digit; what is said comes from a policy and does not depend on time.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
import selectors
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from mh_train.engine.base import Completion, Engine, EngineStats, Request, noise_key
from mh_train.engine.scripted import Policy, ScriptedEngine, look_policy

Result = TypeVar("Result")


@dataclass(frozen=True)
class Latency:
    """How long generation takes. The defaults are of the order of a 7B model on one large GPU.

    A prompt costs `prefill_s` per token; then all running sequences gain one token every
    `step_s + load_s * (running sequences)` seconds. Lengths are log-normal with the given mean and sigma (of the log),
    keyed by `seed` and the request's noise, and cut at `max_tokens`.
    """

    prefill_s: float = 5e-5
    step_s: float = 0.015
    load_s: float = 1e-4
    mean_tokens: float = 120.0
    sigma: float = 0.6
    seed: int = 0

    def tokens(self, request: Request) -> int:
        """Completion length of a request, in tokens."""
        rng = random.Random(noise_key(self.seed, request.noise))
        drawn = rng.lognormvariate(math.log(self.mean_tokens) - self.sigma**2 / 2, self.sigma)
        return max(1, min(round(drawn), request.sampling.max_tokens))


class SimulatedEngine(Engine):
    """Answers what `policy` says after the time that `latency` takes, on the running event loop's clock."""

    name = "simulated"

    def __init__(self, latency: Latency, policy: Policy = look_policy) -> None:
        self.latency = latency
        self._script = ScriptedEngine(policy)
        self.codec, self.max_context = self._script.codec, self._script.max_context
        self._stats = EngineStats()
        self._decoded = 0.0  # tokens that a sequence present since the start would have gained
        self._updated = 0.0
        self._running: list[tuple[float, int, asyncio.Future[None]]] = []  # (value of _decoded at its end, order, ...)
        self._order = 0
        self._timer: asyncio.TimerHandle | None = None

    async def generate(self, request: Request) -> Completion:
        """The policy's completion, later. `stats.completion_tokens` counts the simulated lengths."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        length = self.latency.tokens(request)
        await asyncio.sleep(self.latency.prefill_s * len(request.prompt_ids))
        self._advance(loop.time())
        done: asyncio.Future[None] = loop.create_future()
        self._order += 1
        heapq.heappush(self._running, (self._decoded + length, self._order, done))
        self._schedule(loop)
        await done
        self._stats.requests += 1
        self._stats.prompt_tokens += len(request.prompt_ids)
        self._stats.completion_tokens += length
        self._stats.seconds += loop.time() - started
        return await self._script.generate(request)

    def take_stats(self) -> EngineStats:
        """Counters since the previous call, reset; `seconds` sums the latencies of all requests."""
        taken, self._stats = self._stats, EngineStats()
        return taken

    def _step(self) -> float:
        return self.latency.step_s + self.latency.load_s * len(self._running)

    def _advance(self, now: float) -> None:
        if self._running:
            self._decoded += (now - self._updated) / self._step()
        self._updated = now

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._running:
            wait = max(0.0, self._running[0][0] - self._decoded) * self._step()
            self._timer = loop.call_later(wait, self._finish, loop)

    def _finish(self, loop: asyncio.AbstractEventLoop) -> None:
        self._advance(loop.time())
        self._decoded = max(self._decoded, self._running[0][0])  # the timer is for exactly this end
        while self._running and self._running[0][0] <= self._decoded:
            future = heapq.heappop(self._running)[2]
            if not future.done():  # its caller may have been cancelled
                future.set_result(None)
        self._schedule(loop)


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__(_JumpingSelector(self))
        self.now = 0.0

    def time(self) -> float:
        return self.now


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: _VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        self._loop.now += timeout
        return super().select(0)


def run_virtual(main: Coroutine[Any, Any, Result]) -> tuple[Result, float]:
    """Run a coroutine on a clock that never waits; (its result, simulated seconds).

    Only timers pass time: computation is free, and input from other processes does not hold the clock back.
    """
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        result = runner.run(main)
        return result, runner.get_loop().time()
