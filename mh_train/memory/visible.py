"""What a verifier may see of an episode: what the agent saw, and nothing that only the evaluator knows.

Why: memories that were admitted with hidden labels would leak them into later episodes. The verifier receives the type
below, which has no place for an outcome.
Invariant: two trajectories that differ only in `won`, `score`, `reward` and what derives from them give equal
`VisibleEpisode`s; a score that a shop prints on its last page is cut off (tests flip it).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from mh_train.agent.parse import collapse, parse_act
from mh_train.agent.types import Trajectory

Status = Literal["closed", "step_limit", "tool_error", "unknown"]
_SCORE = re.compile(r"(your score|reward details?|\bscore\s*[:(=]).*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class VisibleStep:
    """One step as logged; `error` says that the action was unreadable or not admissible."""

    observation: str
    thought: str
    action: str
    error: str = ""


@dataclass(frozen=True)
class VisibleEpisode:
    """A finished episode without hidden outcomes.

    `status` is the runtime-visible category e_t: the environment closed the episode, the step limit ended it, the last
    action was an error, or unknown (masked)."""

    env: str
    goal: str
    steps: tuple[VisibleStep, ...]
    final_output: str
    status: Status
    memories: tuple[str, ...] = ()

    def text(self) -> str:
        """Everything that an evidence span may be quoted from."""
        told = [f"{s.observation} {s.thought} {s.action} {s.error}" for s in self.steps]
        return collapse(" ".join([*told, self.final_output])).casefold()


def visible(trajectory: Trajectory, mask_status: bool = False) -> VisibleEpisode:
    """The visible part of a trajectory. With `mask_status` the runtime status is unknown."""
    thoughts = {turn.step: parse_act(turn.text).thought for turn in trajectory.turns if turn.kind == "act"}
    steps = tuple(
        VisibleStep(
            step.observation,
            thoughts.get(i, ""),
            step.action or collapse(step.raw_action),
            "unreadable answer" if step.malformed else "action not admissible" if step.inadmissible else "",
        )
        for i, step in enumerate(trajectory.steps)
    )
    taken = [
        hit.memory for retrieval in trajectory.retrievals if retrieval.outcome != "rejected" for hit in retrieval.hits
    ]
    return VisibleEpisode(
        trajectory.env,
        trajectory.goal,
        steps,
        _SCORE.sub("", trajectory.final_observation).rstrip(),
        "unknown" if mask_status else _status(trajectory, steps),
        tuple(dict.fromkeys(taken)),
    )


def _status(trajectory: Trajectory, steps: tuple[VisibleStep, ...]) -> Status:
    if not trajectory.truncated:
        return "closed"
    return "tool_error" if steps and steps[-1].error else "step_limit"


def holds(episode_text: str, span: str) -> bool:
    """Whether an evidence span occurs in `VisibleEpisode.text()`, up to case, white space, quotes and elisions
    (...)."""
    parts = [collapse(part).strip("\"'` ").casefold() for part in re.split(r"\.\.\.|…", span)]
    parts = [part for part in parts if part]
    position = 0
    for part in parts:
        found = episode_text.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return bool(parts)
