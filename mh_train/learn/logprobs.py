"""Log-probs of completion tokens under the policy, from packed micro-batches.

Why: completions are about a tenth of the tokens and a vocabulary is large, so the language-model head runs on the
positions that predict a completion token only, in chunks that are recomputed in the backward pass.
Invariant: `use_cache=False` and no attention mask; with a cache transformers lets packed rows attend to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mh_train.learn.lora import base_model
from mh_train.learn.rows import Row

LOGITS_AT_ONCE = 2**25  # elements of one chunk of logits: 128 MiB in float32


@dataclass
class MicroBatch:
    """Packed rows: T tokens in S rows, C of them completion tokens. `weight` is 0 for the filler of an empty bin."""

    input_ids: Tensor  # (1, T)
    position_ids: Tensor  # (1, T), from 0 in every row
    boundaries: Tensor  # (S + 1,) int32, cumulative row lengths
    longest: int
    positions: Tensor  # (C,) places whose hidden state predicts the targets
    targets: Tensor  # (C,) completion token ids
    advantages: Tensor  # (C,)
    sampler: Tensor  # (C,) log-probs of the sampler
    turns: Tensor  # (C,) number of the row that a completion token is in
    weight: float = 1.0

    def inputs(self) -> dict[str, Any]:
        """What `Scorer` needs, as keyword arguments."""
        names = ("input_ids", "position_ids", "boundaries", "longest", "positions", "targets")
        return {name: getattr(self, name) for name in names}


FILLER = Row((0,), (0,), 0.0, (0.0,), "filler", "act")


def pack(rows: Sequence[Row], device: torch.device, dtype: torch.dtype) -> MicroBatch:
    """Rows -> one micro-batch on `device`, floats as `dtype`; no rows -> a two-token filler of weight 0."""
    weight = float(bool(rows))
    rows = rows or [FILLER]
    cuts = [0, *accumulate(len(row) for row in rows)]

    def integers(values: list[int], kind: torch.dtype = torch.long) -> Tensor:
        return torch.tensor(values, dtype=kind, device=device)

    def floats(values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    return MicroBatch(
        input_ids=integers([token for row in rows for token in (*row.prompt_ids, *row.completion_ids)])[None],
        position_ids=integers([place for row in rows for place in range(len(row))])[None],
        boundaries=integers(cuts, torch.int32),
        longest=max(len(row) for row in rows),
        positions=integers(
            [
                place
                for row, end in zip(rows, cuts[1:], strict=True)
                for place in range(end - len(row.completion_ids) - 1, end - 1)
            ]
        ),
        targets=integers([token for row in rows for token in row.completion_ids]),
        advantages=floats([row.advantage for row in rows for _ in row.completion_ids]),
        sampler=floats([value for row in rows for value in row.sampler_logprobs]),
        turns=integers([number for number, row in enumerate(rows) for _ in row.completion_ids]),
        weight=weight,
    )


class Scorer(nn.Module):
    """The policy as a function of packed rows. Data-parallel wrappers go around this module, so that their hooks see
    every forward pass; the policy must be under `packed_attention` while it is called."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy = policy
        base = base_model(policy)
        self._no_split_modules = getattr(base, "_no_split_modules", None)
        for name in ("final_logit_softcapping", "logit_scale", "logits_scaling"):
            if getattr(base.config, name, None) not in (None, 1, 1.0):
                raise ValueError(
                    f"{type(base).__name__} transforms its logits ({name}); such models cannot be trained here."
                )

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        boundaries: Tensor,
        longest: int,
        positions: Tensor,
        targets: Tensor,
        temperature: float = 1.0,
        entropy_grad: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Log-probs and entropies (nats) at the sampling temperature, both (C,), in float32 or better."""
        base = base_model(self.policy)
        hidden = base.get_decoder()(
            input_ids=input_ids,
            position_ids=position_ids,
            attention_mask=None,
            use_cache=False,
            cu_seq_lens_q=boundaries,
            cu_seq_lens_k=boundaries,
            max_length_q=longest,
            max_length_k=longest,
        ).last_hidden_state[0]
        head = base.get_output_embeddings()
        states = hidden.index_select(0, positions)
        size = max(1, LOGITS_AT_ONCE // head.weight.shape[0])
        if len(states) <= size:
            return _chunk(head, states, targets, temperature, entropy_grad)
        parts = [
            checkpoint(_chunk, head, state, target, temperature, entropy_grad, use_reentrant=False)
            for state, target in zip(states.split(size), targets.split(size), strict=True)
        ]
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _chunk(
    head: nn.Module, states: Tensor, targets: Tensor, temperature: float, entropy_grad: bool
) -> tuple[Tensor, Tensor]:
    logits = head(states)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    normaliser = logits.logsumexp(-1)
    logprobs = logits.gather(-1, targets[:, None]).squeeze(-1) - normaliser
    with torch.set_grad_enabled(entropy_grad and torch.is_grad_enabled()):
        entropy = normaliser - (torch.exp(logits - normaliser[:, None]) * logits).sum(-1)
    return logprobs, entropy
