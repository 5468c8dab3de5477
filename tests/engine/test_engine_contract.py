"""Every backend keeps the engine contract; those that share a model's weights agree with its plain forward pass."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import engine_contract as contract
import pytest

from mh_train.engine.base import Engine
from mh_train.engine.codec import HFCodec
from mh_train.engine.scripted import ScriptedEngine
from mh_train.engine.simulated import Latency, SimulatedEngine
from mh_train.engine.transformers import TransformersEngine

Make = Callable[[], Engine]


@pytest.fixture(params=["fixed order", "threaded", "small batches"])
def sharing(request: pytest.FixtureRequest, model: Any, tokenizer: Any) -> Engine:
    """Engines over the reference model. A quarter of the vocabulary ends a completion, so that rows end early."""
    codec = HFCodec(tokenizer, range(20, len(tokenizer), 4))
    return TransformersEngine(
        model, codec, max_batch=4 if request.param == "small batches" else 64, fixed_order=request.param != "threaded"
    )


def test_answers_have_the_right_shape(sharing: Engine) -> None:
    contract.check_shape(sharing)


def test_both_reasons_to_finish_occur(sharing: Engine) -> None:
    reasons = {
        answer.finish_reason for answer in contract.answers(sharing, contract.requests(sharing, 16, max_tokens=4))
    }
    assert reasons == {"stop", "length"}


def test_counts_requests_and_tokens(sharing: Engine) -> None:
    contract.check_stats(sharing)


def test_noise_belongs_to_the_request(sharing: Engine) -> None:
    contract.check_noise_belongs_to_the_request(sharing)


@pytest.mark.parametrize("temperature", [1.0, 0.4, 2.0])
def test_logprobs_equal_a_plain_forward_pass(sharing: Engine, model: Any, temperature: float) -> None:
    contract.check_logprobs(sharing, model, temperature)


def test_temperature_zero_equals_generate(sharing: Engine, model: Any) -> None:
    contract.check_greedy(sharing, model)


def test_watched_tokens(sharing: Engine, model: Any) -> None:
    contract.check_watch(sharing, model)


def test_each_request_keeps_its_own_settings(sharing: Engine) -> None:
    contract.check_mixed_settings(sharing)


def _digits(prompt: str, rng: random.Random) -> str:
    return str(rng.getrandbits(32))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ScriptedEngine(_digits),
        lambda: SimulatedEngine(Latency(step_s=1e-6, load_s=0, prefill_s=0), _digits),
    ],
    ids=["scripted", "simulated"],
)
def test_engines_without_a_model_keep_the_contract(make: Make) -> None:
    contract.check_shape(make())
    contract.check_noise_belongs_to_the_request(make())
