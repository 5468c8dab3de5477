"""Who speaks in an episode: the policy through an engine, or anything else that can answer a turn.

Why: rollouts, evaluation, cold start (a scripted expert) and an external reconstructor run the very same episode loop;
only the speaker differs. Invariant: a speaker answers with the ids that go into the training row, unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mh_train.agent.types import MemoryHit, TurnKind
from mh_train.engine.base import Completion, Engine, Message, Request, Sampling


@dataclass(frozen=True)
class TurnRequest:
    """One turn to answer: the rendered prompt, how to sample, and the plain facts that a scripted speaker needs."""

    kind: TurnKind
    step: int
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    noise: int
    goal: str
    observation: object
    """The environment's observation object at this turn (None for turns after the episode)."""
    guidance: str = ""
    hits: Sequence[MemoryHit] = ()
    offer_memory: bool = False
    messages: tuple[Message, ...] = ()
    """What `prompt_ids` encode, for an engine with another tokenizer."""
    watch: tuple[int, ...] = ()
    """Token ids whose log-probs are wanted at every generated position (`engine.base.Request.watch`)."""


class Speaker(Protocol):
    """Answers turns."""

    async def speak(self, turn: TurnRequest) -> Completion:
        """The completion of one turn."""


class EngineSpeaker:
    """The policy: every turn goes to one engine, or to another one for the turn kinds listed in `routes`.

    A routed engine may be another model: it gets the turn's messages in its own tokens; its completion ids are its own.
    """

    def __init__(self, engine: Engine, routes: Mapping[TurnKind, Engine] | None = None) -> None:
        self.engine = engine
        self.routes = dict(routes or {})

    async def speak(self, turn: TurnRequest) -> Completion:
        """Sample the turn's completion from the engine of its kind."""
        engine = self.routes.get(turn.kind, self.engine)
        prompt = turn.prompt_ids if engine is self.engine else tuple(engine.codec.encode(turn.messages))
        return await engine.generate(Request(prompt, turn.sampling, turn.noise, turn.watch))
