"""Draws follow the distribution they report."""

from __future__ import annotations

import math

import pytest
import torch

from mh_train.engine.base import Sampling
from mh_train.engine.sampling import SamplingRows, draw


def grid(count: int) -> torch.Tensor:
    """Evenly spread numbers in [0, 1): the shares of tokens drawn from them are exact up to 1/count."""
    return (torch.arange(count, dtype=torch.float64) + 0.5) / count


def shares(logits: list[float], sampling: Sampling, count: int = 4000) -> tuple[torch.Tensor, torch.Tensor]:
    """How often each token is drawn, and the log-probs reported."""
    rows = SamplingRows.of([sampling] * count, torch.device("cpu"))
    tokens, logprobs = draw(torch.tensor([logits]).expand(count, -1), rows, grid(count))
    return torch.bincount(tokens, minlength=len(logits)) / count, logprobs[0]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_tokens_come_as_often_as_their_logprobs_say(temperature: float) -> None:
    logits = [0.0, 1.0, -1.0, 3.0, 2.5, -20.0]
    drawn, logprobs = shares(logits, Sampling(temperature=temperature))
    torch.testing.assert_close(logprobs, torch.log_softmax(torch.tensor(logits) / temperature, 0))
    torch.testing.assert_close(drawn, logprobs.exp(), atol=5e-4, rtol=0)


def test_top_k_and_top_p_cut_the_draw_but_not_the_logprobs() -> None:
    probabilities = torch.tensor([0.4, 0.3, 0.2, 0.1])
    logits = probabilities.log().tolist()
    by_k, logprobs = shares(logits, Sampling(top_k=2))
    torch.testing.assert_close(by_k, torch.tensor([4 / 7, 3 / 7, 0, 0]), atol=5e-4, rtol=0)
    torch.testing.assert_close(logprobs, probabilities.log())
    by_p, _ = shares(logits, Sampling(top_p=0.75))
    torch.testing.assert_close(by_p, torch.tensor([4 / 9, 3 / 9, 2 / 9, 0]), atol=5e-4, rtol=0)
    least, _ = shares(logits, Sampling(top_p=1e-9))
    assert least.tolist() == [1, 0, 0, 0]


def test_impossible_tokens_are_never_drawn_even_at_the_ends() -> None:
    logits = torch.tensor([[-math.inf, 0.0, -math.inf, 0.0, -math.inf]]).expand(2, -1)
    ends = torch.tensor([0.0, 1 - 2.0**-52], dtype=torch.float64)
    tokens, _ = draw(logits, SamplingRows.of([Sampling()] * 2, torch.device("cpu")), ends)
    assert tokens.tolist() == [1, 3]


def test_temperature_zero_takes_the_most_likely_token_and_reports_the_untempered_distribution() -> None:
    drawn, logprobs = shares([1.0, 5.0, 2.0], Sampling(temperature=0.0))
    assert drawn.tolist() == [0, 1, 0]
    torch.testing.assert_close(logprobs, torch.log_softmax(torch.tensor([1.0, 5.0, 2.0]), 0))
