"""Rollouts ahead of the learner: order, limits, staleness, a whole run that resumes; and an engine that goes stale."""

import asyncio
from pathlib import Path

import pytest
import torch
from talker import SETTINGS, make_model

from mh_train.config import ConfigError, compose
from mh_train.engine.base import EngineError
from mh_train.engine.codec import HFCodec
from mh_train.engine.transformers import TransformersEngine
from mh_train.run.metrics import read_metrics
from mh_train.stages import grpo, sft
from mh_train.stages.flights import Flights


def fly(ahead: int, last: int) -> list[str]:
    """What happens, in order: +u a rollout starts, u it is taken; its length is random."""
    seen: list[str] = []

    def start(update: int):
        seen.append(f"+{update}")

        async def play() -> int:
            await asyncio.sleep(0.001 * (update * 7 % 3))
            return update

        return play()

    async def train() -> None:
        flights = Flights(start, ahead, last)
        for done in range(last):
            seen.append(str(await flights.land(done)))

    asyncio.run(train())
    return seen


def test_without_staleness_a_rollout_starts_when_the_update_before_it_is_done():
    assert fly(0, 3) == ["+1", "1", "+2", "2", "+3", "3"]


def test_with_staleness_so_many_rollouts_are_ahead_and_none_beyond_the_last():
    assert fly(1, 4) == ["+1", "+2", "1", "+3", "2", "+4", "3", "4"]
    assert fly(3, 3) == ["+1", "+2", "+3", "1", "2", "3"]


def test_what_is_under_way_ends_with_the_run():
    async def run() -> bool:
        ended = False

        async def play() -> None:
            nonlocal ended
            try:
                await asyncio.sleep(60)
            finally:
                ended = True

        flights = Flights(lambda update: play() if update > 1 else asyncio.sleep(0), 1, 2)
        await flights.land(0)
        await flights.cancel()
        return ended

    assert asyncio.run(run())


def settings(root: Path, *more: str) -> list[str]:
    small = ["rollout.tasks=2", "rollout.group=2", "learn.checkpoint.every=1", "learn.minibatch_turns=8"]
    return ["experiment=toy", f"root={root}", *small, *SETTINGS, *more]


def test_a_run_with_staleness_measures_it_and_resumes(tmp_path):
    make_model(tmp_path / "toy" / "sft" / "model")
    more = ["rollout.max_staleness=2", "learn.importance=turn"]
    grpo.main(compose(settings(tmp_path, "learn.updates=2", *more)))
    grpo.main(compose(settings(tmp_path, "learn.updates=5", *more)))
    rows = read_metrics(tmp_path / "toy" / "metrics.jsonl")
    assert [row["update"] for row in rows] == [1, 2, 3, 4, 5]
    assert [row["async/staleness_max"] for row in rows[:4]] == [0, 1, 0, 1]
    assert rows[4]["async/staleness_max"] == 2
    scored = [row["learn/masked"] for row in rows if row["learn/entropy"] > 0]
    assert scored and set(scored) == {1.0}  # a script is far from the model's policy


def test_an_engine_that_shares_the_weights_cannot_be_ahead():
    with pytest.raises(ConfigError, match="max_staleness above 0 needs an engine with weights of its own"):
        compose(["experiment=toy", "rollout.max_staleness=1"])
    with pytest.raises(ConfigError, match="max_staleness=5 must lie between 0 and 4"):
        compose(["experiment=toy", "rollout.max_staleness=5", "engine=scripted"])


class StaleEngine(TransformersEngine):
    """A copy of the start policy that never takes new weights."""

    holds_weights = True

    def __init__(self, config, model, tokenizer):
        from copy import deepcopy

        super().__init__(deepcopy(model), HFCodec(tokenizer), fixed_order=False)


def test_an_engine_that_keeps_old_weights_stops_the_run(tmp_path):
    torch.set_num_threads(1)
    small = [
        "sft.trajectories=8",
        "sft.summaries=4",
        "sft.epochs=1",
        "learn.lr=0.05",
        "rollout.tasks=1",
        "learn.flat_groups=keep",
    ]
    config = compose(
        [
            "experiment=toy",
            f"root={tmp_path}",
            "engine.name=test_flights:StaleEngine",
            "learn.minibatch_turns=4",
            *small,
        ]
    )
    sft.main(config)
    with pytest.raises(EngineError, match=r"update \d were pushed.* generates with other weights"):
        grpo.main(config)
