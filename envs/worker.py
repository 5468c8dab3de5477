"""The process side of the pool: one process that holds many environments and answers calls one after the other.

Why a program of its own and not `multiprocessing`: that would import the trainer's main module (torch, CUDA) into every
worker. A worker imports `envs` and the environment's own module, nothing else; it talks over one inherited socket.
Invariants: an environment's exception is an answer, never the end of the process; a worker ends when its parent ends.
Started by `envs.pool` as `python -m envs.worker SOCKET_FD PARENT_PID`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Literal

from envs.base import Observation, TextEnv
from envs.registry import load_target

Operation = Literal["reset", "step"]
Call = tuple[int, int, Operation, Any]
"""(call number, slot number, operation, task or action)"""
Answer = tuple[int, Observation | None, str]
"""(call number, observation or None, error text)"""

HEADER = struct.Struct("<I")
READY = -1  # the call number of the frame that says "imported and listening"


def frame(value: object) -> bytes:
    """One message on the wire: 4 bytes of length, then the pickle."""
    body = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return HEADER.pack(len(body)) + body


class Host:
    """Environments by slot number, made on first use and then reused for every episode of the slot."""

    def __init__(self, target: str, options: Mapping[str, Any]) -> None:
        self._target, self._options = target, dict(options)
        self._envs: dict[int, TextEnv] = {}

    def answer(self, slot: int, operation: Operation, argument: Any) -> tuple[Observation | None, str]:
        """Run one call: (observation, "") or (None, what went wrong); after an error the slot gets a new one."""
        try:
            if slot not in self._envs:
                self._envs[slot] = load_target(self._target)(**self._options)
            env = self._envs[slot]
            observation = env.reset(argument) if operation == "reset" else env.step(argument)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code: whatever it raises is data for the caller
            if (broken := self._envs.pop(slot, None)) is not None:
                with contextlib.suppress(Exception):  # it is broken already; the first error is the one to tell
                    broken.close()
            return None, f"{type(error).__name__}: {error}"
        if not isinstance(observation, Observation):
            return None, f"{operation} gave a {type(observation).__name__} instead of an Observation"
        return observation, ""

    def close(self) -> None:
        """Close every environment."""
        while self._envs:
            self._envs.popitem()[1].close()


def serve(connection: socket.socket) -> None:
    """Answer calls until the other end closes. Each answer leaves at once: a later hang cannot take it along."""
    stream = connection.makefile("rb")

    def receive() -> Any:
        header = stream.read(HEADER.size)
        return pickle.loads(stream.read(HEADER.unpack(header)[0])) if len(header) == HEADER.size else None

    target, options = receive()
    host = Host(target, options)
    with contextlib.suppress(ImportError, TypeError):  # every call answers with this error
        load_target(target)  # its import time belongs to the start, not to the first call
    connection.sendall(frame((READY, None, "")))
    while (call := receive()) is not None:
        connection.sendall(_reply(host, call))
    host.close()


def _reply(host: Host, call: Call) -> bytes:
    number, slot, operation, argument = call
    observation, error = host.answer(slot, operation, argument)
    try:
        return frame((number, observation, error))
    except (pickle.PicklingError, TypeError, AttributeError) as problem:
        return frame((number, None, f"the observation cannot leave its process: {problem}"))


def _leave_with(parent: int) -> None:
    """End this process when the parent is gone, even inside a call that never returns (the socket ends all others)."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def main() -> None:
    """Entry point of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the parent
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the parent is gone: nobody is left to tell
        serve(socket.socket(fileno=descriptor))


if __name__ == "__main__":
    main()
