"""Give the engine the trainer's weights, then check that it generates with them.

Why: sync and probe belong together, whoever calls. Invariant: no rollout starts with weights that were not probed.
"""

from __future__ import annotations

from typing import Any

from mh_train.config import RunConfig
from mh_train.engine import probe
from mh_train.engine.base import Engine
from mh_train.learn.learner import Learner
from mh_train.learn.rows import Row


async def push_weights(config: RunConfig, engine: Engine, learner: Learner, version: int) -> dict[str, float]:
    """Sync and probe; metrics `engine/probe_gap` (nats, mean over tokens) and those of the transfer.

    Raises `EngineError` when engine and trainer disagree by more than `engine.probe_tolerance`."""
    values: dict[str, Any] = await engine.sync(learner.model, version)
    if not engine.holds_weights:
        return values
    temperature = config.rollout.temperature
    answers = await probe.ask(engine, temperature)
    rows = [
        Row(request.prompt_ids, answer.token_ids, 0.0, answer.logprobs, "probe", "act") for request, answer in answers
    ]
    values["engine/probe_gap"] = learner.gap(rows, temperature)
    probe.check(
        values["engine/probe_gap"], config.engine.probe_tolerance or probe.TOLERANCE[config.model.dtype], version
    )
    return values
