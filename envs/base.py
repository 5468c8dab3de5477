"""The contract of a text environment: what a task, an observation and an environment are.

Why: rollouts, evaluation and cold start talk to every benchmark through these three types, so a new environment is one
class and one registration line (`envs.registry`).
Invariant: an environment is deterministic; the same task and the same actions give the same observations in every
process. Nothing in this package imports `mh_train` or torch, so that worker processes stay small.
Check an environment of your own with `mh-train env check NAME`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class Task:
    """One thing to do. `id` is unique within (env, split) and the same on every machine; `data` is JSON-able."""

    id: str
    env: str
    split: str
    type: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """What the agent sees after a reset or a step.

    `text` is the engine's own text, unchanged. `shown`, when not empty, is what a prompt shows instead (ALFWorld:
    without the banner and the task sentence; WebShop: without the instruction). `goal` is the task text T, the same
    at every step. `accepted` says whether the action that led here was admissible; `done` ends the episode; `won` is
    the benchmark's own success; `score` in [0, 1] is its task score.
    """

    text: str
    admissible: tuple[str, ...]
    goal: str
    score: float = 0.0
    won: bool = False
    done: bool = False
    accepted: bool = True
    shown: str = ""
    info: Mapping[str, Any] = field(default_factory=dict)

    def for_prompt(self) -> str:
        """The text that a prompt shows for this observation."""
        return self.shown or self.text


class TextEnv(ABC):
    """One episode slot: `reset(task)` starts an episode, `step(action)` advances it, `close()` frees what it holds.

    Subclasses set `name`, `splits`, `task_types` and `lowercase_actions`. Options given to `__init__` and `tasks` come
    from the `env.options` config mapping. An action that is not admissible is answered by the environment and marked
    `accepted=False`; it never raises. Step limits belong to the rollout, not to the environment.
    """

    name: ClassVar[str]
    splits: ClassVar[tuple[str, ...]]
    task_types: ClassVar[tuple[str, ...]]
    lowercase_actions: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def tasks(cls, split: str, **options: Any) -> list[Task]:
        """All tasks of a split in canonical order. Raises `EnvDataError` (with what to do) when there are none."""

    @abstractmethod
    def reset(self, task: Task) -> Observation:
        """Start an episode of `task`; the first observation."""

    @abstractmethod
    def step(self, action: str) -> Observation:
        """Apply one action (already trimmed and space-collapsed)."""

    def close(self) -> None:  # noqa: B027 - most environments hold nothing
        """Free what the slot holds; called once."""

    @classmethod
    def expert(cls, seed: int, **options: Any) -> Expert | None:
        """A scripted teacher for cold start, or None when the environment has none."""
        return None


class Expert(ABC):
    """A scripted teacher that knows no more than an agent: it sees observations and retrieved memories, never the
    state.

    One object plays one episode. Its texts are what cold start teaches the policy to say: thoughts and memories are
    short.
    """

    @abstractmethod
    def act(self, observation: Observation, guidance: str) -> tuple[str, str]:
        """(thought, action) for the current observation; `guidance` is the accepted reconstruction or empty."""

    @abstractmethod
    def query(self, observation: Observation) -> str:
        """What to ask the memory bank here."""

    @abstractmethod
    def reconstruct(self, observation: Observation, memories: Sequence[tuple[str, str]]) -> str:
        """Adapt (memory text, source state) pairs to the current state; empty when none applies."""

    @abstractmethod
    def distill(self, goal: str, steps: Sequence[tuple[str, str]], won: bool) -> tuple[str, str] | None:
        """(situation, memory) worth keeping from an episode's (observation, action) pairs, or None."""


class EnvDataError(RuntimeError):
    """Data of an environment is missing or broken; the message says which command fixes it."""
