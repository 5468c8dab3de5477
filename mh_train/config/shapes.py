"""How large a decoder is: its dimensions, and what follows from them in parameters.

Why: memory can be planned before any weight is fetched. The formulas are those of the Llama/Qwen2 family (grouped-query
attention, gated feed-forward, RMSNorm), which is what this project trains.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mh_train.config.schema import ModelConfig

TINY_VOCABULARY = 1500
"""About what the cold start's word-level tokenizer of the tiny policy gets; known only after it."""


@dataclass(frozen=True)
class Shape:
    """Dimensions of a decoder; `bias`: query, key and value have one (Qwen2), `tied`: the head is the embedding."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool
    bias: bool = True

    @property
    def linears(self) -> dict[str, tuple[int, int]]:
        """Name -> (inputs, outputs) of the linear maps of one layer."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "q_proj": (self.hidden, queries),
            "k_proj": (self.hidden, keys),
            "v_proj": (self.hidden, keys),
            "o_proj": (queries, self.hidden),
            "gate_proj": (self.hidden, self.intermediate),
            "up_proj": (self.hidden, self.intermediate),
            "down_proj": (self.intermediate, self.hidden),
        }

    @property
    def layer_weights(self) -> int:
        """Elements of one layer's linear maps."""
        return sum(inputs * outputs for inputs, outputs in self.linears.values())

    @property
    def embeddings(self) -> int:
        """Elements of embedding and head."""
        return self.vocab * self.hidden * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """All parameters."""
        biases = (self.heads + 2 * self.kv_heads) * self.head_dim if self.bias else 0
        per_layer = self.layer_weights + biases + 2 * self.hidden
        return self.layers * per_layer + self.embeddings + self.hidden

    def lora(self, rank: int, targets: Sequence[str]) -> int:
        """Parameters of an adapter on the named maps of every layer."""
        return self.layers * sum(rank * sum(self.linears[name]) for name in targets if name in self.linears)

    @property
    def kv_elements(self) -> int:
        """Key and value elements that one token leaves in the cache."""
        return 2 * self.layers * self.kv_heads * self.head_dim


KNOWN = {
    "Qwen2.5-0.5B": Shape(896, 24, 14, 2, 64, 4864, 151936, tied=True),
    "Qwen2.5-1.5B": Shape(1536, 28, 12, 2, 128, 8960, 151936, tied=True),
    "Qwen2.5-3B": Shape(2048, 36, 16, 2, 128, 11008, 151936, tied=True),
    "Qwen2.5-7B": Shape(3584, 28, 28, 4, 128, 18944, 152064, tied=False),
}
"""By the beginning of a hub id's name; the figures are those of the models' config.json."""


def shape_of(model: ModelConfig) -> Shape | None:
    """The dimensions of `model.path`: the tiny policy, a folder with a config.json, or a known name; None otherwise."""
    if model.path == "tiny":
        tiny = model.tiny
        head = tiny.hidden // tiny.heads
        size = (tiny.hidden, tiny.layers, tiny.heads, tiny.heads, head, tiny.intermediate)
        return Shape(*size, TINY_VOCABULARY, tied=True, bias=False)
    file = Path(model.path) / "config.json"
    if file.is_file():
        return from_config(json.loads(file.read_text("utf-8")))
    name = model.path.rsplit("/", 1)[-1]
    return next((shape for known, shape in KNOWN.items() if name.startswith(known)), None)


def from_config(config: dict[str, object]) -> Shape:
    """The dimensions that a Hugging Face config.json of the Llama/Qwen2 family names."""

    def number(name: str, default: int = 0) -> int:
        return int(config.get(name) or default)  # type: ignore[call-overload]

    hidden, heads = number("hidden_size"), number("num_attention_heads")
    return Shape(
        hidden,
        number("num_hidden_layers"),
        heads,
        number("num_key_value_heads", heads),
        number("head_dim", hidden // heads),
        number("intermediate_size"),
        number("vocab_size"),
        tied=bool(config.get("tie_word_embeddings", False)),
        bias=config.get("model_type") == "qwen2",
    )
