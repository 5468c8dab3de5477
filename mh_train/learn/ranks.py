"""The processes of one run and what they tell each other: rank 0 owns what is unique, everybody knows what is shared.

Why: episodes are played wherever there is a GPU, but one process must own the bank, the metrics and the checkpoints.
Invariants: every rank calls the same methods in the same order; waiting for another rank's rollout is not bounded by
the collective timeouts of the GPU backend (objects travel over gloo); when a rank ends early, all others raise
`RankLost` instead of waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import DistributedType

T = TypeVar("T")
LONGEST_WAIT = timedelta(hours=2)
"""For a rank that is alive but silent; a rank that died is noticed at once."""


class RankLost(RuntimeError):
    """Another process of the run ended; the message says how to go on."""


class Ranks:
    """This process among `count` ones; `main` is rank 0. A run of one process never communicates."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.index, self.count = accelerator.process_index, accelerator.num_processes
        self.main = self.index == 0
        self._group = dist.new_group(backend="gloo", timeout=LONGEST_WAIT) if self.count > 1 else None

    @property
    def share(self) -> tuple[int, int]:
        """(rank, processes): which part of a list of work is this rank's."""
        return self.index, self.count

    def everyone(self, value: T) -> list[T]:
        """The values of all ranks in rank order, on every rank. Raises `RankLost`."""
        if self._group is None:
            return [value]
        found: list[Any] = [None] * self.count
        with told():
            dist.all_gather_object(found, value, group=self._group)
        return found

    def from_main(self, value: T) -> T:
        """Rank 0's value on every rank; what the others pass is ignored. Raises `RankLost`."""
        if self._group is None:
            return value
        carried: list[Any] = [value if self.main else None]
        with told():
            dist.broadcast_object_list(carried, src=0, group=self._group)
        return carried[0]


@contextmanager
def told() -> Iterator[None]:
    """Turns the errors of torch's collectives about a peer that is gone into `RankLost`."""
    try:
        yield
    except RuntimeError as error:
        if not _peer_is_gone(error):
            raise
        raise RankLost(
            "Another process of this run ended, so this one stops too; the other one's message says why. Finished "
            "updates are on disk: the same command continues from the last checkpoint."
        ) from error


def _peer_is_gone(error: RuntimeError) -> bool:
    """Whether a collective failed (typed errors of torch >= 2.4; gloo itself raises bare RuntimeErrors)."""
    text = str(error).lower()
    return isinstance(error, dist.DistError) or "gloo" in text or "connection closed by peer" in text


def make_accelerator(grad_clip: float = 1.0) -> Accelerator:
    """The accelerator that the launcher's environment describes; gloo processes where there is no GPU.

    DeepSpeed (GPU only) clips in its own step, and asks for sizes that a loop without a data loader must give it."""
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    if accelerator.distributed_type == DistributedType.DEEPSPEED:
        accelerator.state.deepspeed_plugin.deepspeed_config |= {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_clipping": grad_clip,
            "torch_autocast": {"enabled": True, "dtype": "bfloat16"},
        }
    return accelerator
