"""Prompts of verification and induction: the logged episode first, criteria and view last.

Why: all views of one trajectory then share their longest part, which an engine's prefix cache answers.
Invariants: an episode that is too long loses its middle steps, evenly from head and tail, and says how many; rendering
never exceeds the token limit while task, status and criteria fit by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from mh_train.agent.parse import collapse
from mh_train.engine.base import Message
from mh_train.memory.visible import VisibleEpisode, VisibleStep

View = Literal["full", "evidence", "risk"]
CRITERIA = ("task_completion", "evidence_consistency", "execution_validity", "generalizability")
MOST_CHARACTERS = 1500
"""Longest observation or final output that is shown."""

VERIFIER = """You judge finished episodes of an agent in a text environment: could others safely learn from this one?
You see the task, the log, the last output and the status that the agent itself could see. Judge only by what is logged.
The agent's confidence proves nothing, and you are never told the official result: do not guess it."""

QUESTIONS = {
    "task_completion": "does the log show that the task was done?",
    "evidence_consistency": "do the observations support the final result?",
    "execution_validity": "were the actions accepted, meaningful, and free of loops and accidents?",
    "generalizability": "would the lesson help in other tasks of this kind?",
}

VIEWS: dict[View, str] = {
    "full": "View full: weigh the whole log, the last output and the status.",
    "evidence": (
        "View evidence: leave exploration aside. Find the shortest passages that prove or refute the final result; "
        "without any, evidence_consistency is low and its rationale names what is missing."
    ),
    "risk": (
        "View risk: look for what could mislead a later agent: the wrong object or row, an outdated state, "
        "rejected actions, unfounded assumptions, loops, shortcuts that hold for this instance only. If reuse could do "
        "harm, write a failure_guard."
    ),
}

ANSWER = """Score each criterion with a whole number from 1 (no) to {scale} (clearly yes):
{questions}
Answer with one JSON object and nothing else. The score comes before its reasons; evidence_span is copied from the log
word for word, or NONE:
{{"criteria": {{{shape}}}, "label": "...", "failure_guard": "..."}}
label is verified_success only if task_completion and evidence_consistency are at least {good} and nothing blocking went
wrong; verified_fail if the log shows failure, invalid actions, an unsupported result or a harmful strategy; otherwise
uncertain. failure_guard is one short condition to check before anyone repeats this, or NONE."""

INDUCER = """You turn a judged episode of an agent into at most three memories for later tasks of the same kind. Each
memory must be backed by a passage of the log and must help beyond this task. Never store answers, secrets, names that
occur in this task only, or the task itself in other words. What succeeded becomes a procedural_hint (a way to go about
it) or tool_usage (how the environment wants to be used). What failed becomes a failure_avoidance: a condition and what
to check, never a list of actions to take."""

INDUCE = """Verifier: label {label}, reward {reward:.2f}, confidence {confidence:.2f}; guard: {guard}
{notes}
Answer with one JSON object and nothing else:
{{"records": [{{"type": "procedural_hint|tool_usage|failure_avoidance", "title": "...", "description": "...",
"content": "...", "applicability": "...", "risk": "none|low|medium|high", "guard_condition": "NONE or a short check",
"evidence_span": "copied from the log word for word", "reject_reason": "NONE or why it should not be kept"}}]}}"""


def verify_messages(
    episode: VisibleEpisode, view: View, order: Sequence[str], scale: int, fits: Callable[[Sequence[Message]], bool]
) -> list[Message]:
    """The verifier prompt of one view, criteria in `order`."""
    questions = "\n".join(f"- {name}: {QUESTIONS[name]}" for name in order)
    shape = ", ".join(f'"{name}": {{"score": n, "rationale": "...", "evidence_span": "..."}}' for name in order)
    good = -(-3 * (scale - 1) // 4) + 1
    tail = f"{ANSWER.format(scale=scale, questions=questions, shape=shape, good=good)}\n{VIEWS[view]}"
    return _fitting(VERIFIER, episode, tail, fits)


def induce_messages(
    episode: VisibleEpisode,
    label: str,
    reward: float,
    confidence: float,
    guard: str,
    notes: Sequence[str],
    fits: Callable[[Sequence[Message]], bool],
) -> list[Message]:
    """The induction prompt after a verification; `notes` are the verifier's rationales."""
    told = [f"Memories the agent used: {'; '.join(collapse(m) for m in episode.memories)}"] if episode.memories else []
    notes = [f"- {collapse(note)}" for note in notes]
    tail = INDUCE.format(
        label=label, reward=reward, confidence=confidence, guard=guard or "NONE", notes="\n".join([*notes, *told])
    )
    return _fitting(INDUCER, episode, tail, fits)


def _fitting(
    system: str, episode: VisibleEpisode, tail: str, fits: Callable[[Sequence[Message]], bool]
) -> list[Message]:
    """The most steps that fit, by bisection; at least the first and the last."""

    def messages(kept: int) -> list[Message]:
        user = f"{_log(episode, kept)}\n\n{tail}"
        return [Message(role="system", content=system), Message(role="user", content=user)]

    whole = messages(len(episode.steps))
    if fits(whole):
        return whole
    low, high = 2, len(episode.steps) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(messages(middle)) else (low, middle - 1)
    return messages(low)


def _log(episode: VisibleEpisode, kept: int) -> str:
    steps = list(enumerate(episode.steps, 1))
    head, tail = steps[: (kept + 1) // 2], steps[max((kept + 1) // 2, len(steps) - kept // 2) :]
    left_out = len(steps) - len(head) - len(tail)
    gap = [f"({left_out} steps left out)"] if left_out else []
    lines = [*(_step(i, s) for i, s in head), *gap, *(_step(i, s) for i, s in tail)]
    status = episode.status.replace("_", " ")
    return "\n".join(
        [f"Task: {episode.goal}", *lines, f"Final output: {_clip(episode.final_output)}", f"Runtime status: {status}"]
    )


def _step(index: int, step: VisibleStep) -> str:
    thought = f"\n  thought: {_clip(step.thought)}" if step.thought else ""
    error = f" [{step.error}]" if step.error else ""
    return f"Step {index}\n  observation: {_clip(step.observation)}{thought}\n  action: {step.action}{error}"


def _clip(text: str) -> str:
    text = collapse(text)
    return (
        text
        if len(text) <= MOST_CHARACTERS
        else f"{text[: MOST_CHARACTERS * 2 // 3]} ... {text[-MOST_CHARACTERS // 3 :]}"
    )
