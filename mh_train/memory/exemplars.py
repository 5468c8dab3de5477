"""Records that need no words of a model: whole episodes as worked examples (Synapse), and their routines (AWM).

Why: two baselines keep what happened instead of a lesson about it; here they fill the same bank and are found, replayed
and governed like all others.
Invariants: a pure function of the trajectory; a record's text is bounded, whatever the episode's length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from mh_train.agent.parse import collapse
from mh_train.agent.types import Trajectory
from mh_train.config.schema import Writer
from mh_train.memory.distill import make_record
from mh_train.memory.records import Record
from mh_train.memory.signature import entity_words

MOST_STEPS = 30
MOST_TEXT = 200
"""Characters of one observation in a worked example."""
_QUERY = re.compile(r"^search\[.*\]$", re.IGNORECASE)
_IDENTIFIER = re.compile(r"\b(?=[A-Za-z0-9]*\d)(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{5,}\b")
_NUMBER = re.compile(r"\s*\b\d+\b")


def example(trajectory: Trajectory) -> str:
    """The episode as observation -> action pairs, empty without any; long ones keep their first and last steps."""
    acted = [step for step in trajectory.steps if step.action]
    if not acted:
        return ""
    if len(acted) > MOST_STEPS:
        acted = acted[: MOST_STEPS // 2] + acted[-MOST_STEPS // 2 :]
    pairs = [f"{collapse(step.observation)[:MOST_TEXT]} -> {step.action}" for step in acted]
    return " | ".join([f"task {trajectory.goal}", *pairs])


def workflow(trajectory: Trajectory) -> str:
    """The routine of an episode: its effective actions in order, without what names single instances.

    Numbers go ("open drawer 1" becomes "open drawer"), identifiers and queries become placeholders, immediate
    repetitions and actions that the environment refused are left out."""
    steps: list[str] = []
    for step in trajectory.steps:
        if not step.action or step.inadmissible:
            continue
        action = _QUERY.sub("search[{query}]", step.action)
        action = _NUMBER.sub("", _IDENTIFIER.sub("{id}", action))
        if not steps or steps[-1] != action:
            steps.append(action)
    return "; ".join(f"{number}. {action}" for number, action in enumerate(steps[:MOST_STEPS], 1))


def exemplars(chosen: Sequence[Trajectory], writer: Writer, update: int, run: str) -> list[tuple[int, Record]]:
    """(trajectory index, record) of every chosen episode that has any action to tell."""
    tell, names = (example if writer is Writer.exemplar else workflow), entity_words(chosen)
    return [
        (i, _record(trajectory, text, update, run, names))
        for i, trajectory in enumerate(chosen)
        if (text := tell(trajectory))
    ]


def _record(trajectory: Trajectory, text: str, update: int, run: str, names: Set[str]) -> Record:
    situation = f"{trajectory.goal}. {collapse(trajectory.steps[0].observation)[:MOST_TEXT]}"
    return make_record(trajectory, situation, text, update, run, names)
