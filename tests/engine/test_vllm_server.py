"""A real vLLM server on the CPU: the engine contract, new weights and adapters over HTTP, a death."""

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
from mh_train.engine.base import Completion, EngineError, Request, Sampling
from mh_train.engine.codec import HFCodec
from mh_train.engine.serving import Serving
from mh_train.engine.vllm_replica import Replica, flags
from mh_train.engine.vllm_server import VllmServerEngine

needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed: docs/engines.md tells how")
TOLERANCE = 1e-5


def test_engine_arguments_become_flags() -> None:
    arguments = {
        "model": "m",
        "enable_lora": True,
        "async_scheduling": False,
        "weight_transfer_config": {"backend": "x"},
    }
    assert flags(arguments) == [
        *("--model", "m", "--enable-lora", "--no-async-scheduling"),
        *("--weight-transfer-config", '{"backend": "x"}'),
    ]


def test_an_address_where_nobody_listens(tokenizer: Any) -> None:
    engine = VllmServerEngine(Serving("", 64), HFCodec(tokenizer), urls=["http://127.0.0.1:9/v1"], start_s=0.1)
    assert engine.replicas[0].root == "http://127.0.0.1:9"
    with pytest.raises(EngineError, match=r"127.0.0.1:9 was not healthy within 0.1 s. Is the address right"):
        contract.answers(engine, [Request((1, 2), Sampling())])


@pytest.fixture(scope="module")
def engine(model: Any, tokenizer: Any, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One server with the reference model's weights, pushed into what it loaded from the folder."""
    codec = HFCodec(tokenizer, range(20, len(tokenizer), 4))
    serving = Serving(str(tiny_folder), 256, lora=LoraConfig(enabled=True, r=4))
    engine = VllmServerEngine(serving, codec, max_batch=16, logs=str(tmp_path_factory.mktemp("server")))
    asyncio.run(engine.sync(model, 0))
    yield engine
    asyncio.run(engine.close())


@needs_vllm
def test_the_server_keeps_the_contract(engine: VllmServerEngine, model: Any) -> None:
    contract.check_shape(engine)
    contract.check_stats(engine)
    contract.check_noise_belongs_to_the_request(engine)
    contract.check_logprobs(engine, model, 0.7, TOLERANCE)
    contract.check_greedy(engine, model, TOLERANCE)
    contract.check_watch(engine, model, TOLERANCE)
    contract.check_mixed_settings(engine)


@needs_vllm
def test_what_does_not_fit_and_what_nearly_does(engine: VllmServerEngine) -> None:
    with pytest.raises(EngineError, match="cannot be completed in a context of 256"):
        contract.answers(engine, [Request((10,) * 256, Sampling())])
    nearly = Request((10,) * 254, Sampling(max_tokens=9), noise=3)
    assert len(contract.answers(engine, [nearly])[0].token_ids) <= 2


@needs_vllm
def test_a_dead_server_comes_back_with_the_current_weights_and_its_requests_are_asked_again(
    engine: VllmServerEngine, model: Any
) -> None:
    moved = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(9))
    asyncio.run(engine.sync(moved, 1))
    asked = contract.requests(engine, 6, max_tokens=40)
    before = contract.answers(engine, asked)
    engine.take_stats()
    replica: Replica = engine.replicas[0]
    assert replica.process is not None
    first = replica.process.pid

    replica.process.kill()
    replica.process.wait()
    after = asyncio.run(_all(engine, asked))
    assert replica.process.pid != first
    assert [answer.token_ids for answer in after] == [answer.token_ids for answer in before]
    counted = engine.take_stats().extra
    assert counted["restarts"] == 1 and 1 <= counted["replayed"] <= len(asked)
    contract.check_logprobs(engine, moved, 1.0, TOLERANCE)


@needs_vllm
def test_only_the_adapter_travels(engine: VllmServerEngine, model: Any) -> None:
    from peft import LoraConfig as PeftLora
    from peft import get_peft_model

    asyncio.run(engine.sync(model, 2))
    policy = get_peft_model(copy.deepcopy(model), PeftLora(r=4, target_modules=["q_proj", "down_proj"]))
    for version in (3, 4):
        with torch.no_grad():
            for name, parameter in policy.named_parameters():
                if "lora_B" in name:
                    parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(version))
        sent = asyncio.run(engine.sync(policy, version))
        assert sent["engine/sync_mb"] < 0.1
        contract.check_logprobs(engine, policy, 1.0, TOLERANCE)


async def _all(engine: VllmServerEngine, asked: list[Request]) -> list[Completion]:
    return list(await asyncio.gather(*map(engine.generate, asked)))
