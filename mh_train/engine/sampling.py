"""From logits to one token per row and its exact log-prob.

Why: the trainer needs the log-prob of what was drawn under the distribution at the sampling temperature. Invariant:
log-probs are those of the whole tempered distribution; top-p and top-k restrict only the draw (training forbids both,
since they bias the importance ratio).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mh_train.engine.base import Sampling


@dataclass(frozen=True)
class SamplingRows:
    """Per-row settings as tensors (n,). Greedy rows hold temperature 1, so that their log-probs are untempered."""

    temperature: Tensor
    greedy: Tensor
    top_p: Tensor
    top_k: Tensor
    any_greedy: bool
    any_cut: bool

    @staticmethod
    def of(samplings: Sequence[Sampling], device: torch.device) -> SamplingRows:
        """Stack the settings of n requests."""
        greedy = [s.temperature <= 0 for s in samplings]
        return SamplingRows(
            torch.tensor([1.0 if s.temperature <= 0 else s.temperature for s in samplings], device=device),
            torch.tensor(greedy, device=device),
            torch.tensor([s.top_p for s in samplings], device=device),
            torch.tensor([s.top_k for s in samplings], device=device),
            any(greedy),
            any(s.top_p < 1 or s.top_k > 0 for s in samplings),
        )

    def take(self, rows: Tensor) -> SamplingRows:
        """The settings of some rows (m,)."""
        return SamplingRows(
            self.temperature[rows], self.greedy[rows], self.top_p[rows], self.top_k[rows], self.any_greedy, self.any_cut
        )


def draw(logits: Tensor, rows: SamplingRows, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """One token per row by inverting the cumulative distribution at `uniform`.

    logits (n, vocab), uniform (n,) float64 in [0, 1) -> tokens (n,) and log-probs (n, vocab) float32 in nats.
    """
    logprobs = torch.log_softmax(logits.float() / rows.temperature[:, None], dim=-1)
    weights = logprobs.exp()
    if rows.any_cut:
        weights = _cut(weights, rows)
    cumulative = weights.cumsum(-1, dtype=torch.float64)
    tokens = torch.searchsorted(cumulative, (uniform * cumulative[:, -1])[:, None], right=True).squeeze(1)
    tokens = tokens.clamp_(max=logits.shape[-1] - 1)
    if rows.any_greedy:
        tokens = torch.where(rows.greedy, logprobs.argmax(-1), tokens)
    return tokens, logprobs


def _cut(weights: Tensor, rows: SamplingRows) -> Tensor:
    """Zero what top-k and top-p leave out; the most likely token always stays, ties are kept in token order."""
    ordered, order = weights.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(weights.shape[-1], device=weights.device)
    before = ordered.cumsum(-1) - ordered
    keep = (before < rows.top_p[:, None]) | (rows.top_p[:, None] >= 1)
    keep &= (rank < rows.top_k[:, None]) | (rows.top_k[:, None] <= 0)
    keep[:, 0] = True
    return torch.zeros_like(weights).scatter_(-1, order, ordered * keep)
