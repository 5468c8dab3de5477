"""The one interface to text generation: token ids in; token ids, log-probs and a finish reason out.

Why: episodes, verifier, distillation and evaluation must not know whether vLLM, transformers, an API or a script
answers.
Invariants: a completion holds the engine's own token ids and their log-probs under the *processed* distribution it was
sampled from (temperature applied), never re-tokenised text; what a request samples depends on the request alone (its
`noise` key), never on what else was running.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, TypedDict

FinishReason = Literal["stop", "length", "abort"]


class Message(TypedDict):
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Sampling:
    """How to draw tokens. `temperature` 0 is greedy (log-probs then are those of the untempered distribution)."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 512


@dataclass(frozen=True)
class Request:
    """One prompt to complete. `noise` is a 64-bit key (see `noise_key`); `watch` are token ids whose log-probs the
    caller wants at every generated position (the verifier's score tokens)."""

    prompt_ids: tuple[int, ...]
    sampling: Sampling
    noise: int = 0
    watch: tuple[int, ...] = ()


@dataclass(frozen=True)
class Completion:
    """What came back. `token_ids` (n,) include the end token when `finish_reason` is "stop"; `logprobs` (n,) in nats;
    `text` is the decoded completion without special end tokens; `watched` is (n, len(watch)) log-probs or empty."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str
    finish_reason: FinishReason
    watched: tuple[tuple[float, ...], ...] = ()


class Codec(Protocol):
    """Text <-> token ids of the model behind an engine."""

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Chat messages -> prompt ids, ending where the assistant's answer starts."""

    def encode_text(self, text: str) -> list[int]:
        """Plain text -> ids, no special tokens added."""

    def decode(self, ids: Sequence[int]) -> str:
        """Ids -> text without special tokens."""

    def end_ids(self) -> list[int]:
        """Token ids that end a completion."""


@dataclass
class EngineStats:
    """Counters since the last `take()`; everything the run folder shows about generation comes from here."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    batches: int = 0
    seconds: float = 0.0
    extra: dict[str, float] = field(default_factory=dict)


class Engine(ABC):
    """A text generator. Coroutine-safe within one event loop; batching is the engine's own business."""

    name: str
    codec: Codec
    max_context: int
    """Longest prompt + completion, in tokens."""
    holds_weights = False
    """Generates with a copy of the policy, which `sync` must bring up to date; probed after every sync."""
    version = 0
    """The update whose weights it generates with."""

    @abstractmethod
    async def generate(self, request: Request) -> Completion:
        """Complete one prompt. Raises `EngineError` when the backend failed for good."""

    def check_fits(self, request: Request) -> None:
        """Raise `EngineError` when the prompt is empty or leaves no room for a completion."""
        if not 0 < len(request.prompt_ids) < self.max_context:
            raise EngineError(
                f"A prompt of {len(request.prompt_ids)} tokens cannot be completed in a context of {self.max_context}; "
                "shorten env.prompt_tokens or choose a model with a longer context."
            )

    def expect(self, callers: int) -> None:  # noqa: B027 - most engines need not know
        """Say how many coroutines may still call `generate`. Engines that must form batches in a fixed order (CPU,
        where batch shape changes rounding) start a batch only when that many wait; all others ignore it."""

    async def sync(self, model: Any, version: int) -> dict[str, float]:
        """Take the trainer's weights; metrics of the transfer. Engines that share the model object have nothing to
        do."""
        self.version = version
        return {}

    async def sleep(self) -> None:  # noqa: B027 - most engines have nothing to give back
        """Give accelerator memory back to the trainer until the next `sync`; nobody may be generating."""

    def take_stats(self) -> EngineStats:
        """Counters since the previous call, reset."""
        raise NotImplementedError

    async def close(self) -> None:  # noqa: B027 - most engines hold nothing
        """Free the backend."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class EngineError(RuntimeError):
    """The backend failed for good; the message says what to do."""


def noise_key(*parts: int | str) -> int:
    """A 64-bit key from (run seed, update, task id, episode, turn, ...): equal parts, equal key, on every machine."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")
