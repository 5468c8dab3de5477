"""Every stage of an experiment, one after the other; each continues where it stopped.

Run: `mh-train run experiment=quickstart`.
"""

from __future__ import annotations

import importlib

from mh_train.config import RunConfig

STAGES = ("data", "sft", "grpo", "eval")


def main(config: RunConfig) -> None:
    """data -> sft -> grpo -> eval."""
    for name in STAGES:
        importlib.import_module(f"mh_train.stages.{name}").main(config)
