"""An environment's expert as a speaker, and what it remembers: what cold start puts into the episode loop.

Why: cold-start rows must be the very prompts of a rollout, so the expert sits where the policy will sit and is asked
the same turns. Invariants: a completion is the codec's ids of the text plus the end id; what the expert says depends on
its seeds and on what it is shown, never on scheduling.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from envs.base import Expert, Observation
from mh_train.agent.parse import EMPTY
from mh_train.agent.speaker import TurnRequest
from mh_train.agent.types import MemoryHit, MemoryQuery
from mh_train.engine.base import Codec, Completion
from mh_train.memory.index import words
from mh_train.memory.records import Record
from mh_train.rollout.sft_rows import SftRow, sft_row

Recall = Literal["relevant", "irrelevant", "nothing"]


class ExpertSpeaker:
    """Answers the turns of one episode and keeps them as rows, random actions aside.

    `ask_at`: the first step at which it asks memory, once (None: never). `noise`: share of steps with a random
    admissible action instead of its own.
    """

    def __init__(self, expert: Expert, codec: Codec, rng: random.Random, ask_at: int | None, noise: float) -> None:
        self.rows: list[SftRow] = []
        self._expert, self._codec, self._rng, self._noise = expert, codec, rng, noise
        self._ask_at = ask_at

    async def speak(self, turn: TurnRequest) -> Completion:
        """The expert's answer to one turn."""
        text, learn = (self._reconstruct(turn) or EMPTY, True) if turn.kind == "reconstruct" else self._act(turn)
        row = sft_row(self._codec, turn.kind, turn.messages, text, turn.prompt_ids)
        if learn:
            self.rows.append(row)
        return Completion(row.completion_ids, (0.0,) * len(row.completion_ids), text, "stop")

    def _act(self, turn: TurnRequest) -> tuple[str, bool]:
        """The answer, and whether it is worth learning: random actions lead to new states, they are no example."""
        seen = _observation(turn)
        if turn.offer_memory and self._ask_at is not None and turn.step >= self._ask_at:
            self._ask_at = None
            thought, _ = self._expert.act(seen, "")
            return f"<think>{thought}</think><retrieve_memory>{self._expert.query(seen)}</retrieve_memory>", True
        guidance = turn.guidance or (self._reconstruct(turn) if turn.hits else "")
        thought, action = self._expert.act(seen, guidance)
        stray = bool(self._noise and seen.admissible) and self._rng.random() < self._noise
        if stray:
            action = self._rng.choice(seen.admissible)
        return f"<think>{thought}</think><action>{action}</action>", not stray

    def _reconstruct(self, turn: TurnRequest) -> str:
        return self._expert.reconstruct(_observation(turn), [(hit.memory, hit.source_state) for hit in turn.hits])


@dataclass(frozen=True)
class ExpertMemory:
    """A `MemoryReader` over the expert's own records, never those of the asking task: the k that share most words.

    `recall` "irrelevant" leaves out what was written for the situation of the likest one, so that near misses come
    instead (what a reconstruction must reject); "nothing" gives none.
    """

    shelf: Shelf
    k: int
    recall: Recall

    async def retrieve(self, query: MemoryQuery) -> Sequence[MemoryHit]:
        """Hits by likeness, ties by record id."""
        ranked = [] if self.recall == "nothing" else self.shelf.rank(query)
        if self.recall == "irrelevant":
            ranked = [pair for pair in ranked if pair[1].situation != ranked[0][1].situation]
        return [
            MemoryHit(record.id, record.content, record.source_state, title=record.title, score=score)
            for score, record in ranked[: self.k]
        ]


class Shelf:
    """Records with the weights of their words (inverse document frequency)."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = sorted(records, key=lambda record: record.id)
        self._words = [set(words(f"{r.situation} {r.content} {r.source_state}")) for r in self._records]
        counts = Counter(word for found in self._words for word in found)
        self._weights = {word: math.log(1 + len(self._records) / count) for word, count in counts.items()}

    def __len__(self) -> int:
        return len(self._records)

    def rank(self, query: MemoryQuery) -> list[tuple[float, Record]]:
        """Records of other tasks with their likeness to the query, best first; of equal memories one, as in a bank."""
        wanted = set(words(query.text))
        scored = [
            (sum(self._weights[word] for word in wanted & found), record)
            for found, record in zip(self._words, self._records, strict=True)
            if record.provenance[0].task != query.task_id
        ]
        different: dict[tuple[str, str], tuple[float, Record]] = {}
        for score, record in sorted(scored, key=lambda pair: -pair[0]):
            different.setdefault((record.situation, record.content), (score, record))
        return list(different.values())


def _observation(turn: TurnRequest) -> Observation:
    if not isinstance(turn.observation, Observation):
        raise TypeError(f"The expert answers turns of an episode, not {turn.kind} turns.")
    return turn.observation
