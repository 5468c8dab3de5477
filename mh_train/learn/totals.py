"""Sums over the micro-batches of one update on this rank, made into metrics over all ranks with one exchange.

Why: means of means are wrong when micro-batches differ in size. Invariant: `learn/loss` and `learn/pg_loss` are means
over every completion token of the minibatches (silent rows count as 0); the others are means over computed tokens.
"""

from __future__ import annotations

import torch
from accelerate import Accelerator

from mh_train.learn.loss import LossSums

NAMES = (
    "loss",
    "pg_loss",
    "kl",
    "entropy",
    "clip_fraction",
    "ratio",
    "mismatch_kl",
    "importance",
    "masked",
    "computed",
)


class Totals:
    """Collects `LossSums` of micro-batches and gradient norms of steps."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.sums = torch.zeros(len(NAMES), dtype=torch.float64, device=accelerator.device)
        self.ratio_max = torch.zeros((), dtype=torch.float64, device=accelerator.device)
        self.tokens = 0
        self.grad_norms: list[float] = []

    def add(self, result: LossSums, computed: int) -> None:
        """Count a micro-batch of `computed` completion tokens on this rank."""
        values = [result.sums[name].double() for name in NAMES[:-1]]
        self.sums += torch.stack([*values, values[0].new_tensor(computed)])
        self.ratio_max = torch.maximum(self.ratio_max, result.ratio_max.double())

    def step(self, grad_norm: float, tokens: int) -> None:
        """Count an optimizer step over `tokens` completion tokens of all ranks."""
        self.grad_norms.append(grad_norm)
        self.tokens += tokens

    def metrics(self) -> dict[str, float]:
        """Means and maxima over all ranks; zeros when no step was taken."""
        everyone = self.accelerator.gather(torch.cat([self.sums, self.ratio_max[None]])[None])
        total = dict(zip(NAMES, everyone[:, :-1].sum(0).tolist(), strict=True))
        computed = max(1.0, total.pop("computed"))
        whole = {"loss", "pg_loss"}
        means = {f"learn/{n}": v / (max(1, self.tokens) if n in whole else computed) for n, v in total.items()}
        return {
            **means,
            "learn/ratio_max": float(everyone[:, -1].max()),
            "learn/grad_norm": sum(self.grad_norms) / max(1, len(self.grad_norms)),
            "learn/grad_norm_max": max(self.grad_norms, default=0.0),
            "learn/optimizer_steps": len(self.grad_norms),
        }
