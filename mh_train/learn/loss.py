"""The clipped policy loss of SPEC 3, summed over completion tokens.

    L = - sum_t [ min(r_t A, clip(r_t, 1 - eps_low, 1 + eps_high) A) - beta k3(pi || pi_ref) + c H ]

Why a sum: the caller divides by the completion tokens of the whole minibatch over all ranks, which makes the number
independent of micro-batches, packing and world size.
"""

from __future__ import annotations

import math
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
    turns: Tensor | None = None,
) -> LossSums:
    """All inputs (C,) over completion tokens: pi, its entropy, pi_old, the sampler, A; `reference` where `kl` > 0;
    `turns`, the row of each token, where `importance` is "turn"."""
    ratio = torch.exp((logprobs - old).clamp(-BOUND, BOUND))
    clipped = ratio.clamp(1 - config.clip_low, 1 + config.clip_high)
    surrogate = torch.minimum(ratio * advantages, clipped * advantages)
    if config.dual_clip:  # arXiv 1912.09729: bounds the loss of a negative advantage at c |A|
        bound = torch.maximum(surrogate, config.dual_clip * advantages)
        surrogate = torch.where(advantages < 0, bound, surrogate)
    weight = importance(old, sampler, turns, config)
    surrogate = surrogate * weight
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
        "importance": weight.sum(),
        "masked": (weight == 0).to(weight.dtype).sum(),
    }
    return LossSums(loss, {name: value.detach() for name, value in sums.items()}, ratio.detach().max())


def importance(old: Tensor, sampler: Tensor, turns: Tensor | None, config: LearnConfig) -> Tensor:
    """Weights (C,) for tokens drawn from `sampler` (an older policy, or the same with other kernels) instead of `old`.

    "token": the truncated ratio min(pi_old / sampler, cap), as in IMPALA (arXiv 1802.01561). "turn": 0 for all tokens
    of a turn whose geometric mean ratio lies outside [1 / cap, cap], which is too far off-policy to learn from, else 1.
    "none": 1.
    """
    if config.importance == "token":
        return torch.exp(old - sampler).clamp(max=config.importance_cap)
    if config.importance == "turn":
        if turns is None:
            raise ValueError("learn.importance=turn needs the turn of every token.")
        count = torch.bincount(turns).clamp(min=1)
        mean = (old - sampler).new_zeros(len(count)).index_add_(0, turns, old - sampler) / count
        return (mean.abs() <= math.log(config.importance_cap)).to(old.dtype)[turns]
    return torch.ones_like(old)


def k3(sampling: Tensor, other: Tensor) -> Tensor:
    """Schulman's k3 estimate of KL(sampling || other) per token drawn from `sampling`, never below 0.

    exp(d) - 1 - d with d = log other - log sampling.
    """
    d = (other - sampling).clamp(-BOUND, BOUND)
    return torch.exp(d) - 1 - d
