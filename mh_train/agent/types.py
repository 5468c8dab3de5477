"""The nouns of an episode: turns, steps, retrievals, trajectories, and the memory an episode may ask.

Why: rollout writes them, the learner and the bank read them, the run folder stores them as JSON lines.
Invariant: everything here is plain data (`rollout.writer` writes it as JSON lines), free of environments and of torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

TurnKind = Literal["act", "reconstruct", "distill", "verify", "induce"]
HitRole = Literal["positive", "summary", "guard"]


@dataclass(frozen=True)
class MemoryQuery:
    """What an episode asks the bank: the query text, in which environment, task and state."""

    text: str
    env: str
    task_id: str
    task_type: str
    goal: str
    observation: str


@dataclass(frozen=True)
class MemoryHit:
    """One retrieved record as a prompt needs it; `terms` are the score's terms by name (the `why` of the hit)."""

    record_id: str
    memory: str
    source_state: str
    role: HitRole = "positive"
    title: str = ""
    score: float = 0.0
    terms: Mapping[str, float] = field(default_factory=dict)


class MemoryReader(Protocol):
    """The only door from an episode to the bank; it cannot write."""

    async def retrieve(self, query: MemoryQuery) -> Sequence[MemoryHit]:
        """Best records for the query: positives (at most k) first, then summaries, then guards; may be empty."""


@dataclass
class Turn:
    """One prompt and one completion of the policy (SPEC 1): one training row."""

    kind: TurnKind
    step: int
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str
    finish_reason: str = "stop"
    trainable: bool = True
    well_formed: bool = True
    """Whether the completion holds what its kind must hold (format part 1)."""


@dataclass
class Step:
    """One environment step: the state o_t, what was done there and how it went."""

    observation: str
    admissible: tuple[str, ...]
    action: str = ""
    raw_action: str = ""
    malformed: bool = False
    inadmissible: bool = False
    guidance: str = ""


@dataclass
class Retrieval:
    """One ask of the bank: query, hits, and what the reconstruction made of them.

    `outcome` is "accepted" (guidance used), "rejected" (<EMPTY>, empty, or protocol tags inside), "empty" (nothing
    found, no reconstruct turn) or "replayed" (use mode replay)."""

    step: int
    query: str
    hits: tuple[MemoryHit, ...]
    outcome: Literal["accepted", "rejected", "empty", "replayed"]
    guidance: str = ""


@dataclass
class Trajectory:
    """One episode from reset to its end. `seed_parts` is what keys the noise of its turns."""

    id: str
    env: str
    split: str
    task_id: str
    task_type: str
    goal: str
    group: int
    episode: int
    turns: list[Turn] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    retrievals: list[Retrieval] = field(default_factory=list)
    final_observation: str = ""
    won: bool = False
    score: float = 0.0
    truncated: bool = False
    """Ended by the horizon, not by the environment."""
    reward: float = 0.0
    reward_parts: dict[str, float] = field(default_factory=dict)
    advantage: float = 0.0
    shortened_prompts: int = 0
    memory_mode: str = "reconstruct"
    seconds: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)
