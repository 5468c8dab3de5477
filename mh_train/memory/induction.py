"""Memory induction (SPEC 5): from a verified episode to at most three typed candidates with evidence, or reasons why
not.

Why: what enters the bank must be backed by the log, must carry over to other tasks and, when it comes from a failure,
must be a check and not a recipe; a model says so of its own text, these rules make sure.
Invariants: parsing never raises; every candidate is kept or carries exactly one reason; a kept one quotes a span that
occurs in what the agent saw.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from mh_train.agent.types import Trajectory
from mh_train.config.schema import VerifierConfig
from mh_train.engine.base import noise_key
from mh_train.memory.distill import json_values, source_step
from mh_train.memory.index import words
from mh_train.memory.judge import Judge, JudgeRequest
from mh_train.memory.judge_prompts import induce_messages
from mh_train.memory.records import Change, Provenance, Record, RecordType, Risk, clean_text, record_id
from mh_train.memory.signature import entity_words, signature
from mh_train.memory.verifier import Verdict
from mh_train.memory.visible import VisibleEpisode, holds

MOST = 3
RESTATES = 0.6
"""Jaccard index of the words of content and task from which on a candidate only repeats the task."""
_NAME = re.compile(
    r"\b[a-z]+ \d+\b|\b(?=[a-z0-9]*\d)(?=[a-z0-9]*[a-z])[a-z0-9]{5,}\b|(?:https?:/)?/\w[\w/.]+|#\w+", re.I
)
_CHECK = frozenset(
    words("if when before unless until check verify confirm ensure make avoid never not don without only")
)


@dataclass(frozen=True)
class Candidate:
    """A memory that was proposed; `fault` is empty or says why it is not to be kept."""

    record: Record
    fault: str = ""


async def induce(
    trajectories: Sequence[Trajectory],
    episodes: Sequence[VisibleEpisode],
    verdicts: Sequence[Verdict],
    judge: Judge,
    config: VerifierConfig,
    seed: int,
    update: int,
    run: str = "",
) -> tuple[list[tuple[int, Candidate]], dict[str, float]]:
    """(episode index, candidate) pairs and counts. Episodes are verified already; the writer sees label, R, c and
    guard."""
    requests = [
        JudgeRequest(
            "induce",
            induce_messages(
                episode,
                verdict.descriptor.label,
                verdict.descriptor.reward,
                verdict.descriptor.confidence,
                verdict.guard,
                verdict.notes,
                lambda m: judge.fits(m, config.prompt_tokens, config.max_tokens),
            ),
            noise_key(seed, update, trajectory.id, "induce"),
            0.0,
            config.max_tokens,
            subject=episode,
        )
        for trajectory, episode, verdict in zip(trajectories, episodes, verdicts, strict=True)
    ]
    found: list[tuple[int, Candidate]] = []
    unparsed, things = 0, entity_words(trajectories)
    for i, answer in enumerate(await judge.ask(requests) if requests else []):
        entries = parse_candidates(answer.text)
        unparsed += entries is None
        for entry in (entries or [])[:MOST]:
            found.append((i, make_candidate(entry, trajectories[i], episodes[i], verdicts[i], update, run, things)))
    return found, {"memory/induce_requests": float(len(requests)), "memory/induce_unparsed": float(unparsed)}


def parse_candidates(text: str) -> list[dict[str, Any]] | None:
    """The entries under "records" of an induction answer; None when there is no such list. Never raises."""
    for value in json_values(text):
        entries = value.get("records") if isinstance(value, dict) else None
        if isinstance(entries, list):
            return [entry for entry in entries if isinstance(entry, dict)]
    return None


def make_candidate(
    entry: dict[str, Any],
    trajectory: Trajectory,
    episode: VisibleEpisode,
    verdict: Verdict,
    update: int,
    run: str,
    names: Set[str],
) -> Candidate:
    """One entry as a record (state provisional, descriptor attached later) with the reason against it, if any; `names`
    are the environment's words for things."""
    text: dict[str, Any] = {
        name: _plain(entry.get(name)) for name in ("title", "description", "content", "applicability")
    }
    kind = str(entry.get("type")) if entry.get("type") in get_args(RecordType) else "procedural_hint"
    guard = _plain(entry.get("guard_condition"))
    if kind == "failure_avoidance" and not guard:
        guard = verdict.guard
    evidence = _plain(entry.get("evidence_span"))
    step = source_step(evidence or text["content"], trajectory)
    t = trajectory
    record = Record(
        id=record_id(t.env, t.task_id, t.id, update, kind, text["title"], text["content"]),
        env=t.env,
        task_type=t.task_type,
        type=cast(RecordType, kind),
        risk=cast(Risk, entry.get("risk") if entry.get("risk") in get_args(Risk) else "none"),
        guard_condition=guard,
        evidence_span=evidence,
        source_state=clean_text(t.steps[step].observation),
        state="provisional",
        signature=signature(kind, t.env, t.task_type, text["content"], text["applicability"], t.goal, names),
        provenance=(Provenance(run, update, t.task_id, t.id, step),),
        timeline=(Change(update, "add", "curate", "induced"),),
        **text,
    )
    return Candidate(record, _fault(entry, record, episode))


def _fault(entry: dict[str, Any], record: Record, episode: VisibleEpisode) -> str:
    """Why a candidate must not be kept; empty when nothing speaks against it."""
    declined = _plain(entry.get("reject_reason"))
    if declined:
        return f"declined by its writer: {declined}"
    if entry.get("type") not in get_args(RecordType) or not record.content:
        return "no content or no known type"
    log = episode.text()
    if not record.evidence_span or not holds(log, record.evidence_span):
        return "its evidence span does not occur in the episode"
    if restates(record.content, episode.goal):
        return "restates the task"
    names = [name for name in _NAME.findall(record.content) if name.casefold() in log]
    if names:
        return f"hangs on the one-off name {names[0]!r}"
    if record.type == "failure_avoidance" and not (record.guard_condition and _CHECK & set(words(record.content))):
        return "a failure memory must be a condition or a check"
    return ""


def restates(content: str, goal: str) -> bool:
    """Whether a memory says little more than the task's own words."""
    said, asked = set(words(content)), set(words(goal))
    return bool(asked) and len(said & asked) / len(said | asked) >= RESTATES


def as_guard(record: Record, guard: str) -> Record:
    """A distilled record of a failed episode as a guard: type and signature change, the condition is the verifier's.

    Without a condition it is not admitted: advice from a failure is no check."""
    kind = "failure_avoidance"
    return replace(
        record,
        type=cast(RecordType, kind),
        guard_condition=guard,
        signature=replace(record.signature, type=kind),
    )


def _plain(value: Any) -> str:
    """A text field; NONE and what is not text are empty."""
    text = clean_text(value) if isinstance(value, str) else ""
    return "" if text.upper() in ("NONE", "NULL", "N/A") else text
