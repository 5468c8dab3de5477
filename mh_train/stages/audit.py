"""Everything that can be said about a run's memory once outcomes are known: behaviour over training, the verifier's
calibration, the way of its false accepts, risky warnings, cost.

Why: these need trajectories, bank and metrics together, and nothing else. Invariant: only reads the run; writes
`RUN/audit/audit.json` and `audit.md`.
Run: `mh-train audit RUN [--updates N]`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mh_train.agent.types import Trajectory
from mh_train.config import ConfigError
from mh_train.evaluate.audit import calibration, cost, guard_risks, trace
from mh_train.evaluate.behaviour import behaviour, episodes_of, timelines
from mh_train.evaluate.statistics import EvaluationError
from mh_train.files import write_atomic, write_json
from mh_train.memory.bank import JOURNAL
from mh_train.memory.events import BankState
from mh_train.memory.journal import Event
from mh_train.rollout.writer import read_trajectories
from mh_train.run.folder import RunFolder
from mh_train.run.metrics import read_metrics
from mh_train.run.progress import say

OVER_TIME = ("retrievals", "accepted", "rejected", "reject_rate", "copy", "distance", "grounding")


def main(words: Sequence[str]) -> int:
    """The tool's entry; `words` are those after `mh-train audit`."""
    parser = argparse.ArgumentParser(prog="mh-train audit", description="Audit a run's memory after the fact.")
    parser.add_argument("run", help="a run folder")
    parser.add_argument("--updates", type=int, default=0, help="the last updates only (0: all)")
    asked = parser.parse_args(list(words))
    folder, _ = RunFolder.existing(asked.run)
    files = sorted(folder.trajectories.glob("update-*.jsonl"))[-asked.updates :]
    if not files:
        raise ConfigError(f"{folder.path} holds no trajectories; it has not trained.")
    updates = {int(path.stem.removeprefix("update-")): read_trajectories(path) for path in files}
    result = audit(folder, updates)
    place = folder.path / "audit"
    write_json(place / "audit.json", result)
    write_atomic(place / "audit.md", markdown(result))
    print(markdown(result))
    say(f"audit: {place / 'audit.md'}")
    return 0


def audit(folder: RunFolder, updates: Mapping[int, Sequence[Trajectory]]) -> dict[str, Any]:
    """All audits of a run; `verifier` says why it is missing when the run verified nothing."""
    every = [trajectory for update in sorted(updates) for trajectory in updates[update]]
    episodes = {update: episodes_of(found) for update, found in updates.items()}
    events = journal_events(folder.bank / JOURNAL)
    state = BankState()
    for event in events:
        state.apply(event)
    metrics = (
        [row for row in read_metrics(folder.metrics) if row["update"] in updates] if folder.metrics.is_file() else []
    )
    storage = (
        sum(path.stat().st_size for path in folder.bank.rglob("*") if path.is_file()) if folder.bank.is_dir() else 0
    )
    try:
        verifier: dict[str, Any] = {**calibration(every), "trace": trace(every, events)}
    except EvaluationError as error:
        verifier = {"missing": str(error)}
    return {
        "behaviour": behaviour([one for found in episodes.values() for one in found]),
        "over_training": {update: behaviour(found) for update, found in sorted(episodes.items())},
        "timelines": timelines(episodes),
        "verifier": verifier,
        "failure_memories": guard_risks(
            list(state.records.values()), [e for e in events if e.kind == "reject"], {t.id: t.won for t in every}
        ),
        "cost": cost(every, metrics, storage),
    }


def journal_events(path: Path) -> list[Event]:
    """The sealed events of a journal, in order; none where there is no bank."""
    events: list[Event] = []
    block: list[Event] = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        value = json.loads(line)
        if "kind" in value:
            block.append(Event(**value))
        elif "boundary" in value:
            events += block
            block = []
    return events


def markdown(result: Mapping[str, Any]) -> str:
    """The audit as text for a person."""
    lines = [
        "## Behaviour over training\n",
        f"| update | {' | '.join(OVER_TIME)} | success if accepted | if rejected |",
    ]
    lines.append("|---:" * (len(OVER_TIME) + 3) + "|")
    for update, row in result["over_training"].items():
        cells = [_number(row[name]) for name in OVER_TIME]
        cells += [_number(row[name]["success"]) for name in ("when_accepted", "when_rejected")]
        lines.append(f"| {update} | {' | '.join(cells)} |")
    lines += ["\n## Verifier against outcomes\n", *_verifier(result["verifier"])]
    lines += ["\n## Failure memories by risk\n", "| risk | cases | active | governed |", "|---|---:|---:|---:|"]
    for risk, row in result["failure_memories"].items():
        lines.append(f"| {risk} | {row['cases']} | {row['active']} | {row['governed']} |")
    spent = result["cost"]
    lines += ["\n## Cost per episode\n", "| what | value |", "|---|---:|"]
    lines += [f"| {kind} tokens | {value:.0f} |" for kind, value in spent["tokens"].items()]
    lines += [f"| {name} | {spent[name]:.2f} |" for name in ("total_tokens", "steps", "seconds", "storage_mb")]
    return "\n".join(lines) + "\n"


def _verifier(found: Mapping[str, Any]) -> list[str]:
    if "missing" in found:
        return [found["missing"]]
    lines = ["| label | won | lost |", "|---|---:|---:|"]
    lines += [f"| {label} | {row['won']} | {row['lost']} |" for label, row in found["confusion"].items()]
    lines.append(
        f"\nBalanced accuracy {_number(found['balanced_accuracy'])}, false accepts "
        f"{found['false_accepts']} ({_number(found['false_accept_rate']['share'])} of lost episodes), false rejects "
        f"{found['false_rejects']} ({_number(found['false_reject_rate']['share'])} of won ones).\n"
    )
    lines += ["False accepts traced: " + ", ".join(f"{name} {count}" for name, count in found["trace"].items()) + "."]
    return lines


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
