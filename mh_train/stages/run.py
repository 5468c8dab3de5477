"""Every stage of an experiment, one after the other; each continues where it stopped.

With several processes all of them train, and rank 0 alone makes the data and evaluates while the others wait.
Run: `mh-train run experiment=quickstart`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable

from mh_train.config import RunConfig

STAGES = ("data", "sft", "grpo", "eval")
TOGETHER = ("sft", "grpo")


def main(config: RunConfig) -> None:
    """data -> sft -> grpo -> eval."""
    for name in STAGES:
        stage = importlib.import_module(f"mh_train.stages.{name}")
        if name in TOGETHER or int(os.environ.get("WORLD_SIZE", "1")) == 1:
            stage.main(config)
        else:
            on_main(stage.main, config)


def on_main(work: Callable[[RunConfig], None], config: RunConfig) -> None:
    """Do it on rank 0; the other ranks wait until it is done."""
    from mh_train.learn.ranks import Ranks, make_accelerator

    ranks = Ranks(make_accelerator(config.learn.grad_clip))
    if ranks.main:
        work(config)
    ranks.from_main(None)
