"""Text <-> token ids of a Hugging Face tokenizer, through its chat template.

Why: prompts are rendered once, as ids, and every engine completes ids; nobody else touches a tokenizer.
Invariant: `encode` ends exactly where the assistant's answer starts, and no special token is added behind the
template's back, so a prompt is the same ids in the rollout, in the cold start and in a server.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mh_train.engine.base import Message


class ModelError(RuntimeError):
    """A model or its tokenizer cannot be used; the message says what to do."""


class HFCodec:
    """`Codec` over a tokenizer of transformers.

    `extra_end_ids` are end tokens beyond the tokenizer's own (a model's `generation_config.eos_token_id`).
    Raises `ModelError` when the tokenizer has no chat template or no end token.
    """

    def __init__(self, tokenizer: Any, extra_end_ids: Iterable[int] = ()) -> None:
        name = getattr(tokenizer, "name_or_path", "") or "The tokenizer"
        if getattr(tokenizer, "chat_template", None) is None:
            raise ModelError(
                f"{name} has no chat template, so chat prompts cannot be written; use an instruct model, or put a "
                "chat_template.jinja into its folder."
            )
        own = [tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else []
        self._ends = list(dict.fromkeys([*own, *extra_end_ids]))
        if not self._ends:
            raise ModelError(f"{name} names no end token; set eos_token in its tokenizer_config.json.")
        self.tokenizer = tokenizer
        self._backend = getattr(tokenizer, "backend_tokenizer", None)  # the Rust tokenizer, without Python's wrapping

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Chat messages -> prompt ids (p,), ending with the template's generation prompt."""
        text = self.tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        return self.encode_text(text)

    def encode_text(self, text: str) -> list[int]:
        """Plain text -> ids (n,), no special tokens added."""
        if self._backend is not None:
            return self._backend.encode(text, add_special_tokens=False).ids
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """Ids (n,) -> text without special tokens."""
        if self._backend is not None:
            return self._backend.decode(list(ids), skip_special_tokens=True)
        return self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def end_ids(self) -> list[int]:
        """Token ids that end a completion; the first is the tokenizer's own (the one that training rows end with)."""
        return list(self._ends)
