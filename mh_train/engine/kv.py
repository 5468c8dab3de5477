"""Keys and values of a decoding batch in buffers that grow by blocks and drop finished rows.

Why: transformers' `DynamicCache` copies the whole cache for every token. Invariant: column c of row i is visible only
where the caller's mask says so; rows are right-padded after the prompt, so the columns between prompt and answer hold
padding that must stay masked.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicLayer

from mh_train.engine.codec import ModelError

BLOCK = 32  # columns added when a buffer is full


class RowsLayer(CacheLayerMixin):
    """One layer's keys and values (rows, heads, columns, head size); `length` columns are in use."""

    is_sliding = False

    def __init__(self, rows: int, prompt: int) -> None:
        super().__init__()
        self.rows, self.capacity, self.length = rows, prompt + BLOCK, prompt
        self.key_buffer = self.value_buffer = torch.empty(0)

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocate from the shape of the first states that arrive."""
        self.key_buffer = key_states.new_zeros(self.rows, key_states.shape[1], self.capacity, key_states.shape[3])
        self.value_buffer = value_states.new_zeros(
            self.rows, value_states.shape[1], self.capacity, value_states.shape[3]
        )
        self.is_initialized = True

    def put(self, rows: slice, key_states: Tensor, value_states: Tensor) -> None:
        """Store the prompt states of some rows, from column 0."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.key_buffer[rows, :, : key_states.shape[2]] = key_states
        self.value_buffer[rows, :, : value_states.shape[2]] = value_states

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append one column per new token; views of everything so far."""
        end = self.length + key_states.shape[2]
        if end > self.capacity:
            self.key_buffer, self.value_buffer = _longer(self.key_buffer), _longer(self.value_buffer)
            self.capacity = self.key_buffer.shape[2]
        self.key_buffer[:, :, self.length : end] = key_states
        self.value_buffer[:, :, self.length : end] = value_states
        self.length = end
        return self.key_buffer[:, :, :end], self.value_buffer[:, :, :end]

    def take(self, rows: Tensor) -> None:
        """Keep only some rows (m,)."""
        self.key_buffer, self.value_buffer = self.key_buffer[rows], self.value_buffer[rows]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """(columns after `query_length` more, offset) for transformers' masks."""
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        """Columns in use."""
        return self.length

    def get_max_length(self) -> int:
        """No limit."""
        return -1


class RowsCache(Cache):
    """All layers of a batch whose prompts are at most `prompt` tokens long."""

    def __init__(self, layers: int, rows: int, prompt: int) -> None:
        self.stores = [RowsLayer(rows, prompt) for _ in range(layers)]
        super().__init__(layers=list(self.stores))

    def put(self, rows: slice, prefilled: DynamicCache) -> None:
        """Take over the prompt states of some rows."""
        for mine, theirs in zip(self.stores, prefilled.layers, strict=True):
            assert isinstance(theirs, DynamicLayer)  # `count_layers` let no other through
            assert theirs.keys is not None and theirs.values is not None
            mine.put(rows, theirs.keys, theirs.values)

    def take(self, rows: Tensor) -> None:
        """Keep only some rows (m,)."""
        for layer in self.stores:
            layer.take(rows)


def count_layers(model: Any) -> int:
    """Layers of a model whose attention this cache can serve; raises `ModelError` for sliding or linear attention."""
    layers = DynamicCache(config=model.config).layers
    if not layers or any(type(layer) is not DynamicLayer for layer in layers):
        raise ModelError(
            f"{type(model).__name__} uses sliding or linear attention, which engine=transformers does not decode; "
            "choose a model with full attention or another engine."
        )
    return len(layers)


def _longer(buffer: Tensor) -> Tensor:
    extra = max(BLOCK, buffer.shape[2] // 4)
    return torch.cat([buffer, buffer.new_zeros(*buffer.shape[:2], extra, buffer.shape[3])], dim=2)
