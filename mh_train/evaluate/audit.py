"""Audits after the fact: was the verifier right, where did its mistakes go, which warnings are risky, what did it cost.

Why: outcomes that no online component may see are known once a run is over; joining them with what the verifier said
tells how far its signals can be trusted (MemGuard tables 9, 10, 11 and 25).
Invariants: pure functions of trajectories (with `extra["verdict"]`), journal events and metrics; nothing here is ever
read by a run.
Run: `mh-train audit RUN`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from mh_train.agent.types import Trajectory
from mh_train.evaluate.statistics import EvaluationError, wilson
from mh_train.memory.index import words
from mh_train.memory.journal import Event
from mh_train.memory.records import LABELS, Record

ACCEPT = "verified_success"
SPECIFIC = 5
"""Named conditions and options from which on a warning counts as over-specific."""
RISKS = (
    "misattributed cause",
    "stale or conflicting",
    "incorrect strategy",
    "over-general",
    "over-specific",
    "none seen",
)
CHECKS = frozenset(
    words("if when before unless until check verify confirm ensure make avoid never not don without only")
)


def calibration(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """The verifier's labels against outcomes (MemGuard C.4): a false accept is a lost episode labelled
    verified_success, a false reject a won one labelled otherwise.

    Rates with Wilson intervals; None where there is nothing to divide by. Raises `EvaluationError` without verdicts."""
    judged = [(t.extra["verdict"], t.won) for t in trajectories if "verdict" in t.extra]
    if not judged:
        raise EvaluationError("No episode holds a verdict; switch memory.verifier.source on and train.")
    confusion: dict[str, dict[str, int]] = {
        label: {
            "won": sum(won for verdict, won in judged if verdict["label"] == label),
            "lost": sum(not won for verdict, won in judged if verdict["label"] == label),
        }
        for label in LABELS
    }
    won = sum(counts["won"] for counts in confusion.values())
    lost = len(judged) - won
    true_accepts, false_accepts = confusion[ACCEPT]["won"], confusion[ACCEPT]["lost"]
    rates = [_rate(true_accepts, won)["share"], _rate(lost - false_accepts, lost)["share"]]
    known = [rate for rate in rates if rate is not None]
    return {
        "episodes": len(judged),
        "confusion": confusion,
        "agreement": _rate(true_accepts + lost - false_accepts, len(judged)),
        "balanced_accuracy": fmean(known) if len(known) == 2 else None,
        "false_accepts": false_accepts,
        "false_accept_rate": _rate(false_accepts, lost),
        "false_rejects": won - true_accepts,
        "false_reject_rate": _rate(won - true_accepts, won),
        "reward": {
            "won": _mean([verdict["reward"] for verdict, good in judged if good]),
            "lost": _mean([verdict["reward"] for verdict, good in judged if not good]),
        },
        "verified_again": fmean(float(verdict["views"] > 1) for verdict, _ in judged),
    }


def trace(trajectories: Sequence[Trajectory], events: Sequence[Event]) -> dict[str, int]:
    """Falsely accepted episodes followed through the bank (MemGuard table 11); counts of records, not of events.

    `candidates`: memories worded about such episodes; `blocked`: turned away, kept provisional, or a guard; `active`:
    entered as advice; `retrieved`: found by a later question; `influenced`: accepted by a reconstruction, or replayed;
    `failure`: in at least one lost episode among these."""
    false = {t.id for t in trajectories if t.extra.get("verdict", {}).get("label") == ACCEPT and not t.won}
    active: set[str] = set()
    blocked: set[str] = set()
    for event in events:
        if event.kind == "reject" and event.data.get("trajectory") in false:
            blocked.add(event.id)
        elif event.kind == "add":
            record = event.data["record"]
            if any(source["trajectory"] in false for source in record["provenance"]):
                advice = record["state"] in ("active", "summary") and record["type"] != "failure_avoidance"
                (active if advice else blocked).add(event.id)
    met: dict[str, set[str]] = {"retrieved": set(), "influenced": set(), "failure": set()}
    for trajectory in trajectories:
        for retrieval in trajectory.retrievals:
            found = {hit.record_id for hit in retrieval.hits} & active
            met["retrieved"] |= found
            if retrieval.outcome in ("accepted", "replayed"):
                met["influenced"] |= found
                met["failure"] |= set() if trajectory.won else found
    counts = {"false_accepts": len(false), "candidates": len(active | blocked), "blocked": len(blocked - active)}
    return counts | {"active": len(active)} | {name: len(found) for name, found in met.items()}


def guard_risks(records: Sequence[Record], rejected: Sequence[Event], won: Mapping[str, bool]) -> dict[str, Any]:
    """Failure memories by their main risk and what governance made of them (MemGuard table 25, by rules).

    `won` is the true outcome by trajectory id. A turned-away candidate has no record and is counted by its wording
    alone. Active: still retrievable as a constraint; governed: rejected, provisional, archived or merged."""
    table = {risk: {"cases": 0, "active": 0, "governed": 0} for risk in RISKS}
    for record in records:
        if record.type == "failure_avoidance":
            _count(table, risk_of(record, won), record.retrievable)
    for event in rejected:
        if event.data.get("type") == "failure_avoidance":
            worded = "none seen" if CHECKS & set(words(str(event.data.get("content", "")))) else "incorrect strategy"
            _count(table, worded, False)
    return table


def risk_of(record: Record, won: Mapping[str, bool]) -> str:
    """The first risk that holds: every known source episode was in truth won; it lost a conflict or was superseded; it
    is no condition or check; it names no condition; it hangs on many names."""
    sources = [won[source.trajectory] for source in record.provenance if source.trajectory in won]
    named = len(record.signature.condition) + len(record.signature.options)
    if sources and all(sources):
        return "misattributed cause"
    if record.conflict_links or record.superseded_by:
        return "stale or conflicting"
    if not record.guard_condition or not CHECKS & set(words(f"{record.guard_condition} {record.content}")):
        return "incorrect strategy"
    if named == 0:
        return "over-general"
    return "over-specific" if named >= SPECIFIC else "none seen"


def cost(trajectories: Sequence[Trajectory], metrics: Sequence[Mapping[str, float]], storage: int) -> dict[str, Any]:
    """Tokens and seconds per episode, and the bank's bytes (MemGuard table 9).

    Agent tokens are prompts and completions of act turns; reconstruction is its own; `extra` are the tokens of distil,
    verify and induce turns that `metrics` counted, per episode."""
    if not trajectories:
        raise EvaluationError("There are no episodes to account for; train or evaluate first.")
    turns: Counter[str] = Counter()
    for trajectory in trajectories:
        for turn in trajectory.turns:
            turns[turn.kind] += len(turn.prompt_ids) + len(turn.completion_ids)
    n = len(trajectories)
    spent = {kind: turns[kind] / n for kind in ("act", "reconstruct")}
    episodes = sum(row.get("env/episodes", 0.0) for row in metrics)
    for row in metrics:
        for name, value in row.items():
            if name.startswith("memory/tokens_") and episodes:
                kind = name.removeprefix("memory/tokens_")
                spent[kind] = spent.get(kind, 0.0) + value / episodes
    extra = sum(value for kind, value in spent.items() if kind not in ("act", "reconstruct"))
    return {
        "episodes": n,
        "steps": fmean(len(t.steps) for t in trajectories),
        "tokens": spent,
        "agent_tokens": spent["act"] + spent["reconstruct"],
        "extra_tokens": extra,
        "total_tokens": spent["act"] + spent["reconstruct"] + extra,
        "seconds": fmean(t.seconds for t in trajectories),
        "storage_mb": storage / 1e6,
    }


def _count(table: dict[str, dict[str, int]], risk: str, active: bool) -> None:
    table[risk]["cases"] += 1
    table[risk]["active" if active else "governed"] += 1


def _rate(k: int, n: int) -> dict[str, Any]:
    return {"k": k, "n": n, "share": k / n if n else None, "wilson": list(wilson(k / n, n)) if n else None}


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
