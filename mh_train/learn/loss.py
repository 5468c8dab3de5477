"""The clipped policy loss of SPEC 3, summed over completion tokens.

    L = - sum_t [ min(r_t A, clip(r_t, 1 - eps_low, 1 + eps_high) A) - beta k3(pi || pi_ref) + c H ]

Why a sum: the caller divides by the completion tokens of the whole minibatch over all ranks, which makes the number
independent of micro-batches, packing and world size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mh_train.config.schema import LearnConfig

BOUND = 20.0  # log-ratios beyond this are cut off, so that one absurd token cannot overflow exp()


@dataclass
class LossSums:
    """The loss (with gradient) and, detached, the sums over tokens that become metrics."""

    loss: Tensor
    sums: dict[str, Tensor]
    ratio_max: Tensor


def policy_loss(
    logprobs: Tensor,
    entropy: Tensor,
    old: Tensor,
    sampler: Tensor,
    advantages: Tensor,
    config: LearnConfig,
    reference: Tensor | None = None,
) -> LossSums:
    """All inputs (C,) over completion tokens: pi, its entropy, pi_old, the sampler, A; `reference` where `kl` > 0."""
    ratio = torch.exp((logprobs - old).clamp(-BOUND, BOUND))
    clipped = ratio.clamp(1 - config.clip_low, 1 + config.clip_high)
    surrogate = torch.minimum(ratio * advantages, clipped * advantages)
    if config.dual_clip:  # arXiv 1912.09729: bounds the loss of a negative advantage at c |A|
        bound = torch.maximum(surrogate, config.dual_clip * advantages)
        surrogate = torch.where(advantages < 0, bound, surrogate)
    if config.importance == "token":  # truncated importance correction for what the sampler computed differently
        surrogate = surrogate * torch.exp(old - sampler).clamp(max=config.importance_cap)
    kl = k3(logprobs, reference) if reference is not None else torch.zeros_like(logprobs)
    loss = -(surrogate - config.kl * kl + config.entropy * entropy).sum()
    cut = (ratio * advantages > clipped * advantages).to(ratio.dtype)
    sums = {
        "loss": loss,
        "pg_loss": -surrogate.sum(),
        "kl": kl.sum(),
        "entropy": entropy.sum(),
        "clip_fraction": cut.sum(),
        "ratio": ratio.sum(),
        "mismatch_kl": k3(sampler, old).sum(),
    }
    return LossSums(loss, {name: value.detach() for name, value in sums.items()}, ratio.detach().max())


def k3(sampling: Tensor, other: Tensor) -> Tensor:
    """Schulman's k3 estimate of KL(sampling || other) per token drawn from `sampling`, never below 0.

    exp(d) - 1 - d with d = log other - log sampling.
    """
    d = (other - sampling).clamp(-BOUND, BOUND)
    return torch.exp(d) - 1 - d
