"""Generation with the trainer's own model object: dynamic batching of whatever is waiting.

Why: on a CPU, or before vLLM is installed, episodes must still run as free coroutines while prompts are batched.
Invariants: the weights are the trainer's, so `sync` has nothing to do; with `fixed_order` a batch starts only when
every expected caller waits and its rows are ordered by content, so a run repeats bit for bit whatever the timing was.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from mh_train.engine.base import Codec, Completion, Engine, EngineError, EngineStats, Request
from mh_train.engine.decoding import BatchDecoder, Decoded


class TransformersEngine(Engine):
    """Batches waiting requests; decodes in a worker thread, or in the event loop's own when `fixed_order`.

    `fixed_order` needs `expect(n)` to be kept true by the caller: a batch starts when n callers wait, so callers that
    were announced and never come would wait for ever. Without `expect`, a batch is whatever waits at once.
    """

    name = "transformers"

    def __init__(self, model: Any, codec: Codec, max_batch: int = 128, fixed_order: bool = True) -> None:
        self.codec, self.max_batch, self.fixed_order = codec, max_batch, fixed_order
        self.max_context = int(model.config.max_position_embeddings)
        self._decoder = BatchDecoder(model, codec.end_ids(), self.max_context)
        self._waiting: list[tuple[Request, asyncio.Future[Completion]]] = []
        self._expected = 0
        self._pump: asyncio.Task[None] | None = None
        self._stats = EngineStats()

    async def generate(self, request: Request) -> Completion:
        """Complete one prompt; raises `EngineError` when it is empty, fills the context, or the model failed."""
        self.check_fits(request)
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        self._kick()
        return await future

    def expect(self, callers: int) -> None:
        """How many coroutines may still call `generate` (0: unknown)."""
        self._expected = callers
        self._kick()

    def take_stats(self) -> EngineStats:
        """Counters since the previous call, reset."""
        taken, self._stats = self._stats, EngineStats()
        return taken

    def _kick(self) -> None:
        asked = any(not future.done() for _, future in self._waiting)
        if asked and (self._pump is None or self._pump.done()):
            self._pump = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        """Start batches until nothing waits, or until more callers must come first."""
        while True:
            await asyncio.sleep(0)  # everybody who is ready to ask asks now
            self._waiting = [(request, future) for request, future in self._waiting if not future.done()]
            if not self._waiting or (self.fixed_order and len(self._waiting) < self._expected):
                return
            batch = self._waiting[:] if self.fixed_order else self._waiting[: self.max_batch]
            del self._waiting[: len(batch)]
            await self._answer(batch)

    async def _answer(self, batch: Sequence[tuple[Request, asyncio.Future[Completion]]]) -> None:
        batch = sorted(batch, key=lambda item: (-len(item[0].prompt_ids), item[0].noise, item[0].prompt_ids))
        for start in range(0, len(batch), self.max_batch):
            part = batch[start : start + self.max_batch]
            done, _ = await asyncio.wait({asyncio.create_task(self._decode([request for request, _ in part]))})
            task = done.pop()
            error = task.exception()
            for number, (_, future) in enumerate(part):
                if future.done():  # its caller was cancelled meanwhile
                    continue
                if error is None:
                    future.set_result(task.result()[number])
                else:
                    future.set_exception(error if isinstance(error, EngineError) else _failure(error))

    async def _decode(self, requests: list[Request]) -> list[Completion]:
        started = time.perf_counter()
        if self.fixed_order:
            rows = self._decoder.run(requests)  # everybody waits anyway: no thread, no second pool of torch threads
        else:
            rows = await asyncio.to_thread(self._decoder.run, requests)
        completions = [self._completion(row) for row in rows]
        self._stats.requests += len(requests)
        self._stats.batches += 1
        self._stats.prompt_tokens += sum(len(request.prompt_ids) for request in requests)
        self._stats.completion_tokens += sum(len(row.ids) for row in rows)
        self._stats.seconds += time.perf_counter() - started
        return completions

    def _completion(self, row: Decoded) -> Completion:
        spoken = row.ids[:-1] if row.finish_reason == "stop" else row.ids
        return Completion(
            tuple(row.ids),
            tuple(row.logprobs),
            self.codec.decode(spoken),
            row.finish_reason,
            tuple(tuple(values) for values in row.watched),
        )


def _failure(error: BaseException) -> EngineError:
    failure = EngineError(f"Generation failed: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
