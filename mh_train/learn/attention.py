"""Attention over packed rows with explicit boundaries, registered with transformers as "mh_packed".

Why: many short rows in one sequence cost no padding, but must never see each other. Boundaries are passed
(`cu_seq_lens_q`), not inferred from positions; without them the function refuses. CUDA half precision runs
`torch.nn.attention.varlen`; elsewhere rows of similar length are batched into causal SDPA calls.
Invariant: a row's result is that of the row alone, up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from mh_train.learn.lora import base_model

PACKED = "mh_packed"
WASTE = 1.15  # a batch of rows may be padded to at most this multiple of its tokens, inside attention only


def packed_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """query (1, H, T, D), key and value (1, H_kv, T, D), `cu_seq_lens_q` (rows + 1,) -> ((1, T, H, D), None)."""
    if cu_seq_lens_q is None or max_length_q is None:
        raise ValueError("Packed attention needs row boundaries; score rows through mh_train.learn.logprobs.Scorer.")
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    if query.is_cuda and query.dtype in (torch.float16, torch.bfloat16):
        from torch.nn.attention.varlen import varlen_attn

        window = (-1, 0) if sliding_window is None else (sliding_window - 1, 0)
        boundaries = cu_seq_lens_q.to(torch.int32)
        longest = int(max_length_q)
        out = varlen_attn(
            q, k, v, boundaries, boundaries, longest, longest, scale=scaling, window_size=window, enable_gqa=True
        )
        return cast(Tensor, out)[None], None
    return _grouped_sdpa(q, k, v, cu_seq_lens_q, scaling, dropout, sliding_window)[None], None


@contextmanager
def packed_attention(model: nn.Module) -> Iterator[None]:
    """Packed attention for a transformers (or peft) model, undone at the end: engines generate with the same object."""
    base = base_model(model)
    before = base.config._attn_implementation
    base.set_attn_implementation(PACKED)
    try:
        yield
    finally:
        base.set_attn_implementation(before)


def length_groups(lengths: list[int]) -> list[list[int]]:
    """Row numbers, longest first, cut into groups that pad to at most `WASTE` times their tokens."""
    groups: list[list[int]] = []
    longest = tokens = 0
    for row in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        tokens += lengths[row]
        if groups and longest * (len(groups[-1]) + 1) <= WASTE * tokens:
            groups[-1].append(row)
        else:
            groups.append([row])
            longest = tokens = lengths[row]
    return groups


def _grouped_sdpa(
    q: Tensor, k: Tensor, v: Tensor, boundaries: Tensor, scaling: float | None, dropout: float, window: int | None
) -> Tensor:
    """(T, H, D), (T, H_kv, D) x2 -> (T, H, D). Padding sits behind a row's end, where a causal query never looks."""
    groups, place = _gather_plan(tuple(boundaries.tolist()), q.device)
    outputs = []
    for tokens in groups:
        rows, longest = tokens.shape
        mask = None
        if window is not None and longest > window:
            square = torch.ones(longest, longest, dtype=torch.bool, device=q.device)
            mask = square.tril() & square.triu(1 - window)
        query, key, value = (
            x.index_select(0, tokens.flatten()).view(rows, longest, *x.shape[1:]).transpose(1, 2) for x in (q, k, v)
        )
        out = scaled_dot_product_attention(
            query, key, value, mask, dropout, is_causal=mask is None, scale=scaling, enable_gqa=True
        )
        outputs.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(outputs).index_select(0, place)


@lru_cache(maxsize=4)  # every layer of a forward pass asks for the same plan
def _gather_plan(cuts: tuple[int, ...], device: torch.device) -> tuple[list[Tensor], Tensor]:
    """Cumulative lengths -> per group its token numbers (rows, longest), and where each token lands in the outputs."""
    lengths = [end - start for start, end in pairwise(cuts)]
    place = torch.empty(cuts[-1], dtype=torch.long, device=device)
    groups, landed = [], 0
    for rows in length_groups(lengths):
        start = torch.tensor([cuts[row] for row in rows], device=device)[:, None]
        size = torch.tensor([lengths[row] for row in rows], device=device)[:, None]
        offset = torch.arange(lengths[rows[0]], device=device)[None]
        tokens = start + torch.minimum(offset, size - 1)
        real = offset < size
        place[tokens[real]] = landed + real.flatten().nonzero().flatten()
        groups.append(tokens)
        landed += tokens.numel()
    return groups, place


AttentionInterface.register(PACKED, packed_attention_forward)  # without a mask function no mask is built
