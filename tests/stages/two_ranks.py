"""Runs a function in several processes joined by gloo, as a launcher would."""

import multiprocessing
import os
import socket
from collections.abc import Callable

from accelerate.state import AcceleratorState, PartialState


def on_ranks(work: Callable[[int], None], count: int = 2, seconds: float = 300) -> list[int | None]:
    """Exit codes of `count` forked processes that ran `work(rank)`; None for one that did not end in time."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def rank_main(rank: int) -> None:
        os.environ.update(
            RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
        )
        AcceleratorState._reset_state()
        PartialState._reset_state()
        work(rank)

    context = multiprocessing.get_context("fork")
    children = [context.Process(target=rank_main, args=(rank,), daemon=True) for rank in range(count)]
    for child in children:
        child.start()
    for child in children:
        child.join(seconds)
    codes = [child.exitcode for child in children]
    for child in children:
        child.kill()
    return codes
