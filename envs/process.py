"""One worker process as the event loop sees it: calls out, answers in, a time limit, and what happens when it is lost.

Why: a game engine can hang or end its process; the loop that serves a hundred episodes must notice and go on.
Invariants: calls run in the order they were sent, so the oldest waiting call is the running one: it is the culprit of a
death or a time-out, the others only shared the worker; a lost process is never used again; closing never raises.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, Literal

from envs.base import Observation
from envs.worker import HEADER, READY, Answer, Operation, frame

log = logging.getLogger(__name__)
FailureKind = Literal["died", "timeout", "error"]
START_LIMIT_S = 120.0  # importing an environment on a busy machine is slow; a call is not
STOP_LIMIT_S = 3.0  # how long `close` waits for the process after each of: end of input, SIGTERM, SIGKILL


class EnvFailure(Exception):
    """A call that gave no observation: its worker died, the call ran past the limit, or the environment raised.

    `culprit` is False for calls that only shared the worker with the one that broke it; a retry is then free of blame.
    """

    def __init__(self, kind: FailureKind, message: str, culprit: bool = True) -> None:
        super().__init__(message)
        self.kind, self.message, self.culprit = kind, message, culprit


class WorkerProcess(asyncio.Protocol):
    """A started process and the calls in flight on it. Must be made inside a running event loop."""

    def __init__(self, target: str, options: Mapping[str, Any], timeout_s: float) -> None:
        self.lost = False
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._outbox = [frame((target, dict(options)))]
        self._waiting: dict[int, asyncio.Future[Observation]] = {}
        self._calls = 0
        self._ready = False
        self._since = self._loop.time()  # when the running call (or the start) began
        self._buffer = bytearray()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - read when the process dies, closed in `_end`
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = _spawn(theirs.fileno(), self._stderr.fileno())
        self._transport: asyncio.Transport | None = None
        self._connecting = self._loop.create_task(self._connect(ours))
        self._timer = self._loop.call_later(START_LIMIT_S, self._watch)

    @property
    def pid(self) -> int:
        """The operating system's number of the process."""
        return self._process.pid

    async def call(self, slot: int, operation: Operation, argument: Any) -> Observation:
        """Run one call on the slot's environment. Raises `EnvFailure`."""
        if not self._waiting and self._ready:
            self._since = self._loop.time()
            self._arm()
        self._calls += 1
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(frame((self._calls, slot, operation, argument)))
        future = self._waiting[self._calls] = self._loop.create_future()
        return await future

    async def _connect(self, connection: socket.socket) -> None:
        self._transport, _ = await self._loop.create_connection(lambda: self, sock=connection)
        self._flush()

    def _flush(self) -> None:
        if self._transport is not None and not self.lost:
            self._transport.write(b"".join(self._outbox))
            self._outbox.clear()

    def data_received(self, data: bytes) -> None:
        """Split the stream into answers and hand each to its caller."""
        self._buffer += data
        start = 0
        while len(self._buffer) >= start + HEADER.size:
            end = start + HEADER.size + HEADER.unpack_from(self._buffer, start)[0]
            if len(self._buffer) < end:
                break
            self._answered(pickle.loads(self._buffer[start + HEADER.size : end]))
            start = end
        del self._buffer[:start]

    def _answered(self, answer: Answer) -> None:
        number, observation, error = answer
        self._since = self._loop.time()
        if number == READY:
            self._ready = True
            self._arm()
            return
        future = self._waiting.pop(number)
        if future.done():  # its episode was cancelled
            return
        if observation is None:
            future.set_exception(EnvFailure("error", error))
        else:
            future.set_result(observation)

    def _arm(self) -> None:
        """Watch the running call; the timer looks again by itself while calls are waiting."""
        self._timer.cancel()
        self._timer = self._loop.call_at(self._since + self._timeout_s, self._watch)

    def _watch(self) -> None:
        if self._ready and not self._waiting:
            return
        limit = self._timeout_s if self._ready else START_LIMIT_S
        if self._loop.time() < self._since + limit:
            self._arm()
            return
        what = "An environment call" if self._ready else "The start of an environment worker"
        self._end("timeout", f"{what} ran past {limit:g} s; the worker was killed.")

    def connection_lost(self, error: Exception | None) -> None:
        """The process ended by itself or was killed from outside."""
        if not self.lost:
            self._end("died", f"An environment worker {self._last_words()}.")

    def _end(self, kind: FailureKind, message: str) -> None:
        """Fail the calls in flight and forget the process."""
        self.lost = True
        self._timer.cancel()
        if self._process.poll() is None:
            self._process.kill()
            self._loop.call_later(1.0, self._process.poll)  # reaped without waiting for it here
        if self._transport is not None:
            self._transport.abort()
        self._stderr.close()
        waiting, self._waiting = self._waiting, {}
        for index, future in enumerate(waiting.values()):
            if not future.done():
                future.set_exception(EnvFailure(kind if index == 0 else "died", message, culprit=index == 0))

    def _last_words(self) -> str:
        try:
            code = self._process.wait(0.5)  # the socket closed because the process ends: this returns at once
        except subprocess.TimeoutExpired:
            return "closed its connection"
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - 400))
        words = self._stderr.read().decode(errors="replace").strip()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return how + (f" ({words})" if words else "")

    async def close(self) -> bool:
        """End the process: by itself when it is idle, else by SIGTERM, then SIGKILL. Whether it is gone.

        The system can keep even a killed process for a while (slow disks, much memory): that is logged."""
        await asyncio.wait([self._connecting])
        if not self.lost:
            if self._transport is not None and self._ready and not self._waiting:
                self._transport.write_eof()  # the worker closes its environments and leaves; connection_lost follows
                if not await self._gone():
                    self._process.terminate()
                    await self._gone()
            if not self.lost:
                self._end("died", "The pool was closed while the call ran.")
        if await self._gone():
            return True
        log.warning("The environment worker %d was killed and is still there %g s later.", self.pid, STOP_LIMIT_S)
        return False

    async def _gone(self) -> bool:
        """Whether the process ends within `STOP_LIMIT_S`; the event loop goes on meanwhile."""
        deadline = self._loop.time() + STOP_LIMIT_S
        while self._process.poll() is None and self._loop.time() < deadline:
            await asyncio.sleep(0.005)
        return self._process.poll() is not None


def _spawn(descriptor: int, stderr: int) -> subprocess.Popen[bytes]:
    """Start `envs.worker` with this process' import path. Raises `EnvFailure` when the system refuses."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "envs.worker", str(descriptor), str(os.getpid())],
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
    except OSError as error:
        raise EnvFailure("died", f"No environment worker could be started ({error}); lower env.workers.") from error
