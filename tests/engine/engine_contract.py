"""What every engine promises, as checks that a backend's tests call with an engine of theirs.

A backend that shares weights with a transformers model passes the second half too: `model` is the reference.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Sequence
from typing import Any

import torch

from mh_train.engine.base import Completion, Engine, Request, Sampling

WORDS = [
    "find",
    "bread",
    "you",
    "arrive",
    "at",
    "cabinet",
    "1,",
    "and",
    "a",
    "mug",
    "2.",
    "go",
    "to",
    "drawer",
    "fridge",
    "task",
    "act",
    "or",
    "ask",
    "put",
    "some",
    "in",
]


def requests(engine: Engine, count: int, **settings: Any) -> list[Request]:
    """`count` prompts of different lengths and noise."""
    sampling = Sampling(**{"max_tokens": 12, **settings})
    texts = [" ".join(WORDS[(i + j) % len(WORDS)] for j in range(3 + 7 * i % 40)) for i in range(count)]
    prompts = [engine.codec.encode([{"role": "user", "content": text}]) for text in texts]
    return [Request(tuple(ids), sampling, noise=1000 + i) for i, ids in enumerate(prompts)]


def answers(engine: Engine, asked: Sequence[Request]) -> list[Completion]:
    """The completions of requests that all wait at once."""

    async def gather() -> list[Completion]:
        return list(await asyncio.gather(*map(engine.generate, asked)))

    return run(gather())


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run on an event loop of its own; a hang fails the test."""
    return asyncio.run(asyncio.wait_for(main, 60))


def check_shape(engine: Engine) -> None:
    ends = engine.codec.end_ids()
    asked = requests(engine, 9)
    for request, answer in zip(asked, answers(engine, asked), strict=True):
        assert 1 <= len(answer.token_ids) <= request.sampling.max_tokens
        assert len(answer.logprobs) == len(answer.token_ids)
        assert all(logprob <= 1e-6 and math.isfinite(logprob) for logprob in answer.logprobs)
        assert answer.watched == ()
        assert (answer.token_ids[-1] in ends) == (answer.finish_reason == "stop")
        assert not set(answer.token_ids[:-1]) & set(ends)
        if answer.finish_reason == "length":
            assert len(answer.token_ids) == request.sampling.max_tokens
        spoken = answer.token_ids[:-1] if answer.finish_reason == "stop" else answer.token_ids
        assert answer.text == engine.codec.decode(spoken)


def check_stats(engine: Engine) -> None:
    engine.take_stats()
    asked = requests(engine, 5)
    done = answers(engine, asked)
    stats = engine.take_stats()
    assert stats.requests == 5
    assert stats.prompt_tokens == sum(len(request.prompt_ids) for request in asked)
    assert stats.completion_tokens == sum(len(answer.token_ids) for answer in done)
    assert engine.take_stats().requests == 0


def check_noise_belongs_to_the_request(engine: Engine) -> None:
    """Alone, among others or in another order: the same request says the same; another key says something else."""
    asked = requests(engine, 9)
    together = answers(engine, asked)
    backwards = answers(engine, asked[::-1])[::-1]
    alone = [answers(engine, [request])[0] for request in asked]
    for a, b, c in zip(together, backwards, alone, strict=True):
        assert a.token_ids == b.token_ids == c.token_ids
        assert all(math.isclose(x, y, abs_tol=2e-5) for x, y in zip(a.logprobs, c.logprobs, strict=True))
    rekeyed = answers(engine, [Request(r.prompt_ids, r.sampling, r.noise + 10**6) for r in asked])
    assert [a.token_ids for a in rekeyed] != [a.token_ids for a in together]


def check_logprobs(engine: Engine, model: Any, temperature: float, tolerance: float = 1e-5) -> None:
    """The engine's log-probs are those of one plain forward pass at the same temperature."""
    asked = requests(engine, 9, temperature=temperature)
    for request, answer in zip(asked, answers(engine, asked), strict=True):
        expected = forward_logprobs(model, request.prompt_ids, answer.token_ids, temperature)
        chosen = expected[range(len(answer.token_ids)), answer.token_ids].tolist()
        assert max(abs(a - b) for a, b in zip(answer.logprobs, chosen, strict=True)) <= tolerance


def check_greedy(engine: Engine, model: Any, tolerance: float = 1e-5) -> None:
    """Temperature 0 says what `generate` of transformers says, with the log-probs of the untempered distribution."""
    asked = requests(engine, 7, temperature=0.0)
    for request, answer in zip(asked, answers(engine, asked), strict=True):
        ids = torch.tensor([request.prompt_ids])
        with torch.no_grad():
            whole = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=request.sampling.max_tokens,
                eos_token_id=engine.codec.end_ids(),
                pad_token_id=0,
            )
        assert answer.token_ids == tuple(whole[0, len(request.prompt_ids) :].tolist())
        expected = forward_logprobs(model, request.prompt_ids, answer.token_ids, 1.0)
        chosen = expected[range(len(answer.token_ids)), answer.token_ids].tolist()
        assert max(abs(a - b) for a, b in zip(answer.logprobs, chosen, strict=True)) <= tolerance


def check_watch(engine: Engine, model: Any, tolerance: float = 1e-5) -> None:
    """Watched tokens come with their log-probs at every position, in the order asked, whatever others watch."""
    plain = requests(engine, 6, temperature=0.7)
    watches = [(), (7,), (300, 5, 9), (), (5,), (12, 11)]
    asked = [Request(r.prompt_ids, r.sampling, r.noise, watch) for r, watch in zip(plain, watches, strict=True)]
    for request, answer in zip(asked, answers(engine, asked), strict=True):
        if not request.watch:
            assert answer.watched == ()
            continue
        expected = forward_logprobs(model, request.prompt_ids, answer.token_ids, 0.7)[:, list(request.watch)]
        torch.testing.assert_close(torch.tensor(answer.watched), expected, atol=tolerance, rtol=0)


def check_mixed_settings(engine: Engine) -> None:
    """Each request keeps its own temperature, cut and length among others."""
    plain = requests(engine, 4)
    settings = [
        Sampling(temperature=0.0, max_tokens=3),
        Sampling(top_k=1, max_tokens=9),
        Sampling(temperature=0.4, max_tokens=1),
        Sampling(top_p=0.3, max_tokens=5),
    ]
    asked = [Request(r.prompt_ids, sampling, r.noise) for r, sampling in zip(plain, settings, strict=True)]
    together = answers(engine, asked)
    assert [a.token_ids for a in together] == [answers(engine, [request])[0].token_ids for request in asked]
    assert all(len(a.token_ids) <= r.sampling.max_tokens for a, r in zip(together, asked, strict=True))
    greedy = answers(engine, [Request(plain[1].prompt_ids, Sampling(temperature=0.0, max_tokens=9))])[0]
    assert together[1].token_ids == greedy.token_ids  # top_k=1 leaves one choice


def forward_logprobs(model: Any, prompt: Sequence[int], answer: Sequence[int], temperature: float) -> torch.Tensor:
    """(n, vocab) log-probs of a plain forward pass before each token of `answer`."""
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *answer]]), use_cache=False).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits / temperature, dim=-1)
