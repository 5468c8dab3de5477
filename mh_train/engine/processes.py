"""Which of a run's processes this one is, which GPU is its own, and how the processes it starts end with it.

Why: every trainer process has an engine of its own; vLLM takes the first GPU that it sees, and what a killed process
leaves behind keeps that GPU's memory. Ranks are read where launchers (torchrun, accelerate) write them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from mh_train.engine.base import EngineError


def rank(environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """(number of this process, processes of the run)."""
    return int(environment.get("RANK", "0")), int(environment.get("WORLD_SIZE", "1"))


def local_rank(environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """The same on this machine."""
    return int(environment.get("LOCAL_RANK", "0")), int(environment.get("LOCAL_WORLD_SIZE", "1"))


def share(things: Sequence[str], place: tuple[int, int], what: str) -> list[str]:
    """A process's part of what all of them have together: equal parts, neighbours together; of nothing, nothing.

    Raises `EngineError` when there is less than one for each."""
    number, count = place
    size = len(things) // count
    if things and not size:
        raise EngineError(f"engine.options.{what} names {len(things)} for {count} processes; each needs its own.")
    return list(things[number * size : (number + 1) * size])


@contextmanager
def own_gpu(gpus: int) -> Iterator[None]:
    """Processes started inside see only this one's GPU out of the `gpus` that it sees. Alone it shares all of them."""
    number, count = local_rank()
    if count == 1 or not gpus:
        yield
        return
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    visible = before.split(",") if before else [str(gpu) for gpu in range(gpus)]
    os.environ["CUDA_VISIBLE_DEVICES"] = visible[number]
    try:
        yield
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]
        if before is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = before


def die_with_parent() -> None:
    """Linux: this process gets SIGTERM when the thread that started it ends, however it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
