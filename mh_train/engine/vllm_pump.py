"""A thread that steps vLLM's engine: requests and jobs go in from anywhere, futures come back.

Why: vLLM's scheduler batches continuously as long as somebody steps it. A thread of its own keeps it stepping while
episodes (on whatever event loop) and the learner work, and gives jobs such as a weight update the place between two
steps. On a CPU the engine lives in this process; elsewhere vLLM starts its core as a process.
Invariant: vLLM is touched from this thread only; every future is resolved, with an error when the engine died.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from mh_train.engine.base import EngineError

Job = Callable[[Any], Any]
"""Something to do with the `LLMEngine` between two steps."""


class Pump:
    """Owns the `LLMEngine` that `build` makes; the thread starts with the first use."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build
        self._inbox: queue.SimpleQueue[tuple[Job, Future[Any]] | None] = queue.SimpleQueue()
        self._running: dict[str, Future[Any]] = {}
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._dead: BaseException | None = None

    def submit(self, job: Job) -> Future[Any]:
        """Run `job(engine)` between two steps; its result."""
        future: Future[Any] = Future()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="vllm", daemon=True)
            self._thread.start()
        self._inbox.put((job, future))
        if self._dead is not None:
            self._fail_all(self._dead)
        return future

    def generate(self, prompt: Any, params: Callable[[], Any], lora: Callable[[], Any]) -> Future[Any]:
        """The finished `RequestOutput` of one prompt; `params` and `lora` are asked when it is handed over."""
        done: Future[Any] = Future()

        def add(engine: Any) -> None:
            number = str(next(self._numbers))
            self._running[number] = done
            try:
                engine.add_request(number, prompt, params(), lora_request=lora())
            except Exception:  # vLLM refuses this one request
                del self._running[number]
                raise

        self.submit(add).add_done_callback(lambda added: _pass_on_failure(added, done))
        return done

    def close(self) -> None:
        """Let running requests go and free the engine."""
        if self._thread is not None:
            self._inbox.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        try:
            engine = self._build()
            while self._do_jobs(engine):
                self._step(engine)
            engine.engine_core.shutdown()
        except BaseException as error:  # noqa: BLE001 - whatever kills the engine is told to everyone who waits
            self._dead = error
            self._fail_all(error)

    def _do_jobs(self, engine: Any) -> bool:
        """Do what waits in the inbox; without running requests wait for it. False when asked to close."""
        while True:
            try:
                item = self._inbox.get(block=not self._running)
            except queue.Empty:
                return True
            if item is None:
                return False
            job, future = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job(engine))
            except Exception as error:  # noqa: BLE001 - belongs to whoever asked
                future.set_exception(error)

    def _step(self, engine: Any) -> None:
        for output in engine.step():
            future = self._running.pop(output.request_id, None) if output.finished else None
            if future is not None and future.set_running_or_notify_cancel():
                future.set_result(output)
        left = [number for number, future in self._running.items() if future.cancelled()]
        if left:
            engine.abort_request(left)
            for number in left:
                del self._running[number]

    def _fail_all(self, error: BaseException) -> None:
        failure = EngineError(f"vLLM stopped: {type(error).__name__}: {error}")
        failure.__cause__ = error
        waiting = list(self._running.values())
        self._running.clear()
        while not self._inbox.empty():
            item = self._inbox.get()
            waiting += [item[1]] if item is not None else []
        for future in waiting:
            if not future.done():
                future.set_exception(failure)


def _pass_on_failure(added: Future[Any], done: Future[Any]) -> None:
    error = added.exception()
    if error is not None and not done.done():
        done.set_exception(error)
