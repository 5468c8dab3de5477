"""How the transformers engine forms batches, shares the trainer's model and fails."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from typing import Any

import engine_contract as contract
import pytest
import torch

from mh_train.engine.base import EngineError, Request, Sampling
from mh_train.engine.codec import HFCodec, ModelError
from mh_train.engine.decoding import SHORTEST, buckets, ready_to_generate
from mh_train.engine.transformers import TransformersEngine


@pytest.fixture
def engine(model: Any, tokenizer: Any) -> TransformersEngine:
    return TransformersEngine(model, HFCodec(tokenizer), max_batch=64)


async def late(engine: TransformersEngine, request: Request, delay: float) -> Any:
    await asyncio.sleep(delay)
    return await engine.generate(request)


def test_a_batch_starts_only_when_all_expected_callers_wait(engine: TransformersEngine) -> None:
    asked = contract.requests(engine, 6)

    async def main() -> Any:
        engine.expect(6)
        return await asyncio.gather(*(late(engine, request, 0.01 * i) for i, request in enumerate(asked)))

    contract.run(main())
    assert engine.take_stats().batches == 1


def test_a_batch_starts_when_the_missing_callers_are_no_longer_expected(engine: TransformersEngine) -> None:
    asked = contract.requests(engine, 3)

    async def main() -> Any:
        engine.expect(4)
        waiting = asyncio.gather(*map(engine.generate, asked))
        await asyncio.sleep(0.05)
        assert engine.take_stats().batches == 0
        engine.expect(3)  # the fourth episode ended without another turn
        return await waiting

    assert len(contract.run(main())) == 3


@pytest.mark.parametrize("max_batch", [64, 3])
def test_in_fixed_order_timing_changes_no_bit(model: Any, tokenizer: Any, max_batch: int) -> None:
    engine = TransformersEngine(model, HFCodec(tokenizer), max_batch=max_batch)
    asked = contract.requests(engine, 8)

    async def main(delays: list[float]) -> Any:
        engine.expect(8)
        return await asyncio.gather(*(late(engine, r, d) for r, d in zip(asked, delays, strict=True)))

    assert contract.run(main([0.002 * i for i in range(8)])) == contract.run(main([0.002 * (7 - i) for i in range(8)]))


def test_while_a_thread_generates_the_loop_goes_on(model: Any, tokenizer: Any) -> None:
    engine = TransformersEngine(model, HFCodec(tokenizer), fixed_order=False)
    threads = set()
    model_forward = model.forward

    def spy(*args: Any, **kwargs: Any) -> Any:
        threads.add(threading.current_thread())
        time.sleep(0.02)
        return model_forward(*args, **kwargs)

    async def main() -> int:
        answering = asyncio.gather(*map(engine.generate, contract.requests(engine, 2, max_tokens=8)))
        ticks = 0
        while not answering.done():
            await asyncio.sleep(0.005)
            ticks += 1
        return ticks

    model.forward = spy
    try:
        assert contract.run(main()) > 5
    finally:
        del model.forward
    assert threading.main_thread() not in threads


def test_a_cancelled_caller_does_not_disturb_the_others(engine: TransformersEngine) -> None:
    asked = contract.requests(engine, 3)

    async def main() -> Any:
        engine.expect(3)
        tasks = [asyncio.create_task(engine.generate(request)) for request in asked[:2]]
        await asyncio.sleep(0.01)
        tasks[0].cancel()
        engine.expect(2)
        return await asyncio.gather(*tasks, engine.generate(asked[2]), return_exceptions=True)

    cancelled, *others = contract.run(main())
    assert isinstance(cancelled, asyncio.CancelledError)
    assert others == contract.answers(engine, asked[1:])


def test_an_interrupted_event_loop_leaves_nothing_behind(engine: TransformersEngine) -> None:
    asked = contract.requests(engine, 2)

    async def interrupted() -> None:
        engine.expect(9)
        await asyncio.wait_for(engine.generate(asked[0]), 0.01)

    with pytest.raises(TimeoutError):
        contract.run(interrupted())
    engine.expect(0)
    assert len(contract.answers(engine, asked)) == 2
    assert engine.take_stats().requests == 2


def test_the_model_is_left_as_the_trainer_had_it(engine: TransformersEngine, model: Any) -> None:
    model.set_attn_implementation("eager")
    model.train()
    seen = []
    hook = model.register_forward_pre_hook(
        lambda module, _: seen.append((module.training, module.config._attn_implementation, torch.is_grad_enabled()))
    )
    try:
        contract.answers(engine, contract.requests(engine, 2))
        assert set(seen) == {(False, "sdpa", False)}
        assert model.training and model.config._attn_implementation == "eager"
        with pytest.raises(RuntimeError, match="as before"), ready_to_generate(model):
            raise RuntimeError("as before")
        assert model.training and model.config._attn_implementation == "eager"
    finally:
        hook.remove()
        model.eval()
        model.set_attn_implementation("sdpa")


def test_the_trainers_next_step_is_seen_at_once(engine: TransformersEngine, model: Any) -> None:
    asked = contract.requests(engine, 4, temperature=0.0)
    before = contract.answers(engine, asked)
    weight = model.lm_head.weight
    kept = weight.detach().clone()
    try:
        with torch.no_grad():
            weight.copy_(kept.roll(1, 0))
        assert contract.answers(engine, asked) != before
        assert contract.run(engine.sync(model, 1)) == {}
    finally:
        with torch.no_grad():
            weight.copy_(kept)
    assert contract.answers(engine, asked) == before


@pytest.mark.parametrize("length", [0, 2048, 5000])
def test_prompts_that_leave_no_room_are_refused(engine: TransformersEngine, length: int) -> None:
    with pytest.raises(EngineError, match="cannot be completed in a context of 2048"):
        contract.answers(engine, [Request((9,) * length, Sampling())])


def test_a_completion_ends_at_the_end_of_the_context(engine: TransformersEngine) -> None:
    answer = contract.answers(engine, [Request((9,) * 2045, Sampling(max_tokens=50))])[0]
    assert (len(answer.token_ids), answer.finish_reason) == (3, "length")


def test_diverged_weights_are_an_error_for_every_caller(model: Any, engine: TransformersEngine) -> None:
    hook = model.lm_head.register_forward_hook(lambda *parts: parts[2] * float("nan"))
    try:
        with pytest.raises(EngineError, match="weights have diverged"):
            contract.answers(engine, contract.requests(engine, 2))
    finally:
        hook.remove()
    assert len(contract.answers(engine, contract.requests(engine, 2))) == 2


def test_a_backend_failure_reaches_every_caller_with_its_cause(model: Any, engine: TransformersEngine) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError("no room for 9 GB")

    hook = model.register_forward_pre_hook(fail)

    async def main() -> Any:
        asked = contract.requests(engine, 3)
        return await asyncio.gather(*map(engine.generate, asked), return_exceptions=True)

    try:
        errors = contract.run(main())
    finally:
        hook.remove()
    assert all(isinstance(error, EngineError) and "MemoryError: no room for 9 GB" in str(error) for error in errors)
    assert isinstance(errors[0].__cause__, MemoryError)


def test_models_with_sliding_attention_are_refused(tokenizer: Any) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64}
    config = Qwen2Config(
        **sizes, vocab_size=50, num_hidden_layers=2, use_sliding_window=True, sliding_window=8, max_window_layers=1
    )
    with pytest.raises(ModelError, match="sliding or linear attention"):
        TransformersEngine(Qwen2ForCausalLM(config), HFCodec(tokenizer))


def test_grouped_query_attention_and_long_answers_agree_with_a_plain_forward_pass(tokenizer: Any) -> None:
    """Two key heads for four query heads; more tokens than a block of the cache holds."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128}
    model = Qwen2ForCausalLM(Qwen2Config(**sizes, vocab_size=len(tokenizer), num_hidden_layers=2)).eval()
    engine = TransformersEngine(model, HFCodec(tokenizer))
    asked = contract.requests(engine, 3, max_tokens=100)
    for request, answer in zip(asked, contract.answers(engine, asked), strict=True):
        expected = contract.forward_logprobs(model, request.prompt_ids, answer.token_ids, 1.0)
        chosen = expected[range(len(answer.token_ids)), answer.token_ids]
        torch.testing.assert_close(torch.tensor(answer.logprobs), chosen, atol=1e-5, rtol=0)


def test_adapters_added_to_the_model_later_are_used(model: Any, tokenizer: Any) -> None:
    from peft import LoraConfig, get_peft_model

    base = copy.deepcopy(model)
    engine = TransformersEngine(base, HFCodec(tokenizer))
    adapted = get_peft_model(base, LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    contract.check_logprobs(engine, adapted, 1.0)
    around = TransformersEngine(adapted, HFCodec(tokenizer))
    asked = contract.requests(engine, 5)
    assert contract.answers(engine, asked) == contract.answers(around, asked)
    with adapted.disable_adapter():
        contract.check_logprobs(engine, model, 1.0)


def test_buckets_hold_neighbours_of_like_length_within_the_token_limit() -> None:
    lengths = [900, 890, 700, 699, 698, 300, *[100] * 60, 2]
    cut = buckets(lengths, 1500)
    assert [row for part in cut for row in range(len(lengths))[part]] == list(range(len(lengths)))
    for part in cut:
        inside = lengths[part]
        assert min(inside) >= SHORTEST * max(inside)
        assert len(inside) * max(inside) <= 1500
    assert len(buckets([100] * 10, 1000)) == 1
    assert len(buckets([5000, 5000], 1000)) == 2  # one prompt at least


def test_equal_prompts_run_once_and_still_answer_differently(engine: TransformersEngine, model: Any) -> None:
    first, second = (request.prompt_ids for request in contract.requests(engine, 2))
    asked = [Request((first, second)[i % 2], Sampling(max_tokens=6), noise=i) for i in range(8)]
    rows = []
    hook = model.register_forward_pre_hook(
        lambda _, __, inputs: rows.append(len(inputs["input_ids"])), with_kwargs=True
    )
    try:
        together = contract.answers(engine, asked)
    finally:
        hook.remove()
    assert sum(rows[: rows.index(8)]) == 2
    assert len({answer.token_ids for answer in together}) == 8
    assert [a.token_ids for a in together] == [contract.answers(engine, [one])[0].token_ids for one in asked]
