"""vLLM, for real, on the CPU: the engine contract, new weights while it runs, adapters. One engine for all."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import engine_contract as contract
import pytest
import torch

from mh_train.config.schema import LoraConfig
from mh_train.engine.base import EngineError, Request, Sampling
from mh_train.engine.codec import HFCodec
from mh_train.engine.serving import Serving
from mh_train.engine.vllm import VllmEngine

pytestmark = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed: docs/engines.md tells how")
TOLERANCE = 1e-5  # nats, float32: vLLM's kernels sum in another order than transformers'
CONTEXT = 256


@pytest.fixture(scope="module")
def codec(tokenizer: Any) -> HFCodec:
    """A quarter of the vocabulary ends a completion, so that rows end early."""
    return HFCodec(tokenizer, range(20, len(tokenizer), 4))


@pytest.fixture(scope="module")
def engine(model: Any, codec: HFCodec, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """vLLM with the reference model's weights, pushed into what it loaded from the folder."""
    lora = LoraConfig(enabled=True, r=4)
    engine = VllmEngine(Serving(str(tiny_folder), CONTEXT, lora=lora), codec, max_batch=16, max_num_batched_tokens=512)
    asyncio.run(engine.sync(model, 0))
    yield engine
    asyncio.run(engine.close())


def test_answers_have_the_right_shape(engine: VllmEngine) -> None:
    contract.check_shape(engine)


def test_counts_requests_and_tokens(engine: VllmEngine) -> None:
    contract.check_stats(engine)


def test_noise_belongs_to_the_request(engine: VllmEngine) -> None:
    contract.check_noise_belongs_to_the_request(engine)


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_logprobs_equal_a_plain_forward_pass(engine: VllmEngine, model: Any, temperature: float) -> None:
    contract.check_logprobs(engine, model, temperature, TOLERANCE)


def test_temperature_zero_equals_generate(engine: VllmEngine, model: Any) -> None:
    contract.check_greedy(engine, model, TOLERANCE)


def test_watched_tokens(engine: VllmEngine, model: Any) -> None:
    contract.check_watch(engine, model, TOLERANCE)


def test_each_request_keeps_its_own_settings(engine: VllmEngine) -> None:
    contract.check_mixed_settings(engine)


def test_what_does_not_fit_is_refused_and_what_nearly_fits_ends_at_the_context(engine: VllmEngine) -> None:
    with pytest.raises(EngineError, match="cannot be completed in a context of 256"):
        contract.answers(engine, [Request((10,) * CONTEXT, Sampling())])
    nearly = Request((10,) * (CONTEXT - 2), Sampling(temperature=1.0, max_tokens=9), noise=3)
    assert len(contract.answers(engine, [nearly])[0].token_ids) <= 2


def test_more_prompts_than_one_step_takes(engine: VllmEngine) -> None:
    asked = [Request((50 + number, *range(100, 290)), Sampling(max_tokens=2), noise=number) for number in range(8)]
    assert len(contract.answers(engine, asked)) == 8


def test_shared_prefixes_are_cached_and_forgotten_with_the_weights(engine: VllmEngine, model: Any) -> None:
    asked = [Request((*range(100, 230), last), Sampling(max_tokens=2), noise=last) for last in (5, 6)]
    contract.answers(engine, asked[:1])
    engine.take_stats()
    contract.answers(engine, asked[1:])
    assert engine.take_stats().extra["cached_tokens"] == 128
    changed = _moved(model)
    asyncio.run(engine.sync(changed, 1))
    contract.check_logprobs(engine, changed, 1.0, TOLERANCE)
    engine.take_stats()
    contract.answers(engine, asked[1:])
    assert engine.take_stats().extra["cached_tokens"] == 0
    asyncio.run(engine.sync(model, 2))
    assert engine.version == 2


def test_running_requests_survive_new_weights(engine: VllmEngine, model: Any) -> None:
    """The engine is told new weights in the middle of a completion: it goes on to its end with them."""
    asked = [Request((40 + i, 41, 42), Sampling(max_tokens=60), noise=i) for i in range(4)]
    own, ends = engine.codec, engine.codec._ends  # type: ignore[attr-defined]

    async def both() -> Any:
        running = [asyncio.create_task(engine.generate(request)) for request in asked]
        await asyncio.sleep(0.05)
        await engine.sync(model, 3)
        return await asyncio.gather(*running)

    own._ends = ends[:1]  # type: ignore[attr-defined]
    try:
        done = contract.run(both())
    finally:
        own._ends = ends  # type: ignore[attr-defined]
    assert {len(answer.token_ids) for answer in done if answer.finish_reason == "length"} <= {60}


def test_only_the_adapter_travels_and_the_old_one_goes(engine: VllmEngine, model: Any) -> None:
    from peft import LoraConfig as PeftLora
    from peft import get_peft_model

    policy = get_peft_model(copy.deepcopy(model), PeftLora(r=4, target_modules=["q_proj", "down_proj"]))
    for version in (4, 5):
        with torch.no_grad():
            for name, parameter in policy.named_parameters():
                if "lora_B" in name:
                    parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(version))
        sent = asyncio.run(engine.sync(policy, version))
        contract.check_logprobs(engine, policy, 1.0, TOLERANCE)
        assert sent["engine/sync_mb"] < 0.1
        assert contract.run(engine._do(lambda vllm: vllm.list_loras())) == {version + 1}


def _moved(model: Any) -> Any:
    moved = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(9))
    return moved
