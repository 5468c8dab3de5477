"""Who answers verification and induction prompts: the policy or another engine (a server is one, `engine=api`).

Why: the equations of the verifier need the probability of every score token, not only the one that was written.
Invariants: an answer's `odds(at)` are log-probs of the score tokens at the token that
covers character `at`, or None when the backend cannot tell (the caller then uses a one-hot); what an engine answers
depends on the request alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from mh_train.agent.speaker import Speaker, TurnRequest
from mh_train.engine.base import Codec, Completion, Engine, Message, Sampling
from mh_train.memory.distill import ask_all

Odds = Callable[[int], Mapping[int, float] | None]


@dataclass(frozen=True)
class JudgeRequest:
    """One prompt. `scale` G > 0 asks for the log-probs of the score tokens 1..G; `subject` is what it is about."""

    kind: Literal["verify", "induce"]
    messages: Sequence[Message]
    noise: int
    temperature: float
    max_tokens: int
    scale: int = 0
    subject: object = None


@dataclass(frozen=True)
class JudgeAnswer:
    """The text and, per character position, the log-probs of the scores there ({score: nats}) or None."""

    text: str
    odds: Odds = lambda at: None


class Judge(Protocol):
    """Answers many requests at once."""

    async def ask(self, requests: Sequence[JudgeRequest]) -> list[JudgeAnswer]:
        """One answer each, in order. Raises `EngineError` when the backend failed for good."""

    def fits(self, messages: Sequence[Message], tokens: int, answer: int) -> bool:
        """Whether a prompt has at most `tokens` tokens and leaves room for an answer of `answer` tokens."""


class EngineJudge:
    """A model behind an engine; `codec` is the one of the engine that answers `verify` and `induce` turns."""

    def __init__(self, speaker: Speaker, engine: Engine, codec: Codec | None = None) -> None:
        self.speaker, self.engine = speaker, engine
        self.codec = codec or engine.codec

    async def ask(self, requests: Sequence[JudgeRequest]) -> list[JudgeAnswer]:
        """Put all requests to the engine together."""
        tokens = [score_tokens(self.codec, request.scale) for request in requests]
        turns = [
            TurnRequest(
                kind=request.kind,
                step=0,
                prompt_ids=self._within(self.codec.encode(request.messages), request.max_tokens),
                sampling=Sampling(request.temperature, max_tokens=request.max_tokens),
                noise=request.noise,
                goal="",
                observation=request.subject,
                messages=tuple(request.messages),
                watch=tuple(watched),
            )
            for request, watched in zip(requests, tokens, strict=True)
        ]
        answers = await ask_all(self.speaker, self.engine, turns)
        return [
            JudgeAnswer(answer.text, _engine_odds(self.codec, answer, watched))
            for answer, watched in zip(answers, tokens, strict=True)
        ]

    def _within(self, ids: Sequence[int], answer: int) -> tuple[int, ...]:
        """Ids that leave room for the answer; what cannot be shortened any other way loses its middle."""
        room = max(self.engine.max_context - answer, 2)
        return tuple(ids) if len(ids) <= room else (*ids[: room // 2], *ids[len(ids) - (room - room // 2) :])

    def fits(self, messages: Sequence[Message], tokens: int, answer: int) -> bool:
        """Counted in the engine's tokens, within its context."""
        return len(self.codec.encode(messages)) <= min(tokens, self.engine.max_context - answer)


def score_tokens(codec: Codec, scale: int) -> dict[int, int]:
    """Token id -> score for every score 1..G that is one token, bare or after a space."""
    found: dict[int, int] = {}
    for score in range(1, scale + 1):
        for text in (str(score), f" {score}"):
            ids = codec.encode_text(text)
            if len(ids) == 1:
                found[ids[0]] = score
    return found


def _engine_odds(codec: Codec, answer: Completion, watched: Mapping[int, int]) -> Odds:
    """Reads `Completion.watched`; scores that are several tokens make the whole scale unreadable there."""

    def odds(at: int) -> Mapping[int, float] | None:
        if not answer.watched:
            return None
        low, high = 0, len(answer.token_ids) - 1
        while low < high:
            middle = (low + high) // 2
            covers = len(codec.decode(answer.token_ids[: middle + 1])) > at
            low, high = (low, middle) if covers else (middle + 1, high)
        if answer.token_ids[low] not in watched:
            return None
        return _summed(zip(watched.values(), answer.watched[low], strict=True))

    return odds


def _summed(pairs: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Score -> log of the summed probability of its spellings."""
    found: dict[int, float] = {}
    for score, logprob in pairs:
        found[score] = float(np.logaddexp(found[score], logprob)) if score in found else logprob
    return found
