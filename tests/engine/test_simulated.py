"""The latency model against times worked out by hand."""

from __future__ import annotations

import asyncio
import statistics
from typing import Any

import pytest

from mh_train.engine.base import Request, Sampling
from mh_train.engine.simulated import Latency, SimulatedEngine, run_virtual

ALWAYS_100 = {"mean_tokens": 100.0, "sigma": 0.0}


def request(noise: int = 0, prompt: int = 1, max_tokens: int = 10_000) -> Request:
    return Request((2,) * prompt, Sampling(max_tokens=max_tokens), noise)


async def finish_times(engine: SimulatedEngine, asked: list[tuple[float, Request]]) -> list[float]:
    async def one(start: float, what: Request) -> float:
        await asyncio.sleep(start)
        await engine.generate(what)
        return asyncio.get_running_loop().time()

    return list(await asyncio.gather(*(one(start, what) for start, what in asked)))


def times(latency: Latency, asked: list[tuple[float, Request]]) -> list[float]:
    return run_virtual(finish_times(SimulatedEngine(latency), asked))[0]


def test_a_lone_request_takes_its_prompt_and_its_tokens() -> None:
    latency = Latency(prefill_s=0.01, step_s=0.02, load_s=0.005, **ALWAYS_100)
    assert times(latency, [(0, request(prompt=50))]) == pytest.approx([50 * 0.01 + 100 * 0.025])


def test_sequences_slow_each_other_down_while_they_overlap() -> None:
    latency = Latency(prefill_s=0, step_s=0.0, load_s=0.01, **ALWAYS_100)
    # alone for 50 tokens (.5 s), then two at .02 s per token until the first ends, then the second alone
    assert times(latency, [(0, request()), (0.5, request())]) == pytest.approx([0.5 + 1.0, 0.5 + 1.0 + 0.5])


def test_max_tokens_cuts_the_length() -> None:
    latency = Latency(prefill_s=0, step_s=1.0, load_s=0, **ALWAYS_100)
    assert times(latency, [(0, request(max_tokens=7))]) == pytest.approx([7.0])


def test_lengths_are_log_normal_with_the_given_mean_and_belong_to_the_request() -> None:
    latency = Latency(mean_tokens=200, sigma=0.5)
    lengths = [latency.tokens(request(noise)) for noise in range(4000)]
    assert statistics.mean(lengths) == pytest.approx(200, rel=0.03)
    assert statistics.stdev(lengths) / 200 == pytest.approx(0.533, rel=0.08)  # sqrt(exp(sigma^2) - 1)
    assert lengths[17] == latency.tokens(request(17)) != Latency(mean_tokens=200, sigma=0.5, seed=1).tokens(request(17))


def test_virtual_time_repeats_to_the_last_digit_and_costs_no_waiting() -> None:
    asked = [(0.1 * i, request(noise=i, prompt=10 + i)) for i in range(50)]
    assert times(Latency(), asked) == times(Latency(), asked)
    (_, seconds) = run_virtual(asyncio.sleep(10**6))
    assert seconds == pytest.approx(10**6)


def test_on_a_real_clock_it_really_waits() -> None:
    engine = SimulatedEngine(Latency(prefill_s=0, step_s=1e-4, load_s=0, **ALWAYS_100))

    async def main() -> float:
        started = asyncio.get_running_loop().time()
        await engine.generate(request())
        return asyncio.get_running_loop().time() - started

    assert asyncio.run(main()) > 0.009
    assert engine.take_stats().completion_tokens == 100


def test_a_cancelled_request_frees_its_caller_and_nobody_hangs() -> None:
    engine = SimulatedEngine(Latency(prefill_s=0, step_s=0.01, load_s=0, **ALWAYS_100))

    async def main() -> Any:
        first, second = (asyncio.create_task(engine.generate(request(noise))) for noise in (0, 1))
        await asyncio.sleep(0.1)
        first.cancel()
        return (await asyncio.gather(first, second, return_exceptions=True))[1]

    answer, seconds = run_virtual(main())
    assert answer.text.startswith("<think>")
    assert seconds == pytest.approx(1.0)
