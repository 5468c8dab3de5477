"""Which injected memories contradict the environment: hidden knowledge of the experimenter, never shown to a bank.

Why: governance is worth what it keeps from being injected. A memory is harmful in a task when the advice that an expert
draws from it there differs from the advice it draws from what the task's own solution proves.
Invariant: nothing here is reachable from an episode, a verifier or a bank.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from envs.base import Expert, Observation
from mh_train.agent.types import MemoryHit, Trajectory
from mh_train.evaluate.readings import Log, Reading


class Truth:
    """What solved episodes of the same tasks prove. `make_expert` gives a fresh expert without errors, `reading` says
    what a solved episode teaches."""

    def __init__(self, make_expert: Callable[[], Expert], reading: Reading, solved: Sequence[Trajectory]) -> None:
        self._make_expert = make_expert
        self._advice: dict[str, str] = {}
        for episode in solved:
            steps = tuple((step.observation, step.action) for step in episode.steps)
            lesson = reading.lesson(Log(episode.goal, steps, True), False, random.Random(0)) if episode.won else None
            advice = lesson and self._read(episode, lesson.content, " ".join(text for text, _ in steps))
            if advice:
                self._advice[episode.task_id] = advice

    @property
    def known(self) -> Mapping[str, str]:
        """Task id -> the advice that is right there; tasks that were not solved are missing."""
        return self._advice

    def contradicts(self, episode: Trajectory, hit: MemoryHit) -> bool:
        """Whether a memory that was injected into an episode advises something else than what is right there."""
        right = self._advice.get(episode.task_id)
        advised = self._read(episode, hit.memory, hit.source_state) if episode.steps else ""
        return right is not None and advised not in ("", right)

    def _read(self, episode: Trajectory, memory: str, state: str) -> str:
        """The advice that an expert draws from one memory at the start of an episode; empty when it does not apply."""
        first = episode.steps[0]
        start = Observation(first.observation, first.admissible, episode.goal)
        return self._make_expert().reconstruct(start, [(memory, state)])
