"""Counterfactual probes (MemHarness 4.5, appendix B): does a reconstruction change when one fact of the state does?

A probe is a real state s+, a memory that was really retrieved and accepted there, and s-, the same state with one fact
changed so that the memory no longer applies. The policy rewrites the memory for both; only the rewriting is judged, no
task is played.
Invariants: a probe holds everything that its prompts need; labels are a pure function of texts; before and after are
always of the same probes.
Run: `mh-train probe build RUN`, `mh-train probe run RUN`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from mh_train.agent.parse import EMPTY, parse_reconstruct
from mh_train.agent.prompts import Situation
from mh_train.agent.types import MemoryHit, Step, Trajectory
from mh_train.engine.base import noise_key
from mh_train.evaluate.behaviour import edit_distance
from mh_train.evaluate.edits import Case, Edit, edits
from mh_train.evaluate.statistics import EvaluationError, TaskValues, paired_bootstrap
from mh_train.files import write_jsonl
from mh_train.memory.records import record_id

Label = Literal["unchanged", "adapted", "rejected", "malformed"]
LABELS: tuple[Label, ...] = ("unchanged", "adapted", "rejected", "malformed")
UNCHANGED = 0.1
"""Edit distance in words up to which a reconstruction still is its memory."""
SHIPPED = Path(__file__).with_name("probe_sets")
"""Rule-built sets of the mini environments, `<env>.jsonl`."""


@dataclass(frozen=True)
class Probe:
    """One triple (s+, memory, s-) with what surrounds it: task, the steps before, the memory's own source state."""

    id: str
    env: str
    goal: str
    memory: str
    source_state: str
    s_plus: str
    s_minus: str
    flip: str
    rule: str
    record: str = ""
    history: list[list[str]] = field(default_factory=list)
    """(observation, action) pairs, oldest first."""

    def situation(self, state: str) -> Situation:
        """Where the episode stands with s+ or s- as its observation. An s- at the very start is its only state."""
        return Situation(self.goal, [Step(seen, (), did) for seen, did in self.history], state, ())

    def hit(self) -> MemoryHit:
        """The memory as a reconstruct prompt takes it."""
        return MemoryHit(self.record, self.memory, self.source_state)


def cases(trajectories: Sequence[Trajectory], history: int) -> list[tuple[Trajectory, Probe, Case]]:
    """Every accepted retrieval as a probe that still lacks its s-, won episodes first, then by id.

    Its memory is the best hit; the memories of all other records are what edits take alternatives from."""
    memories = sorted({h.memory for t in trajectories for r in t.retrievals for h in r.hits if h.role == "positive"})
    found = []
    for trajectory in sorted(trajectories, key=lambda t: (not t.won, t.id)):
        for retrieval in trajectory.retrievals:
            at = retrieval.step
            if retrieval.outcome != "accepted" or at >= len(trajectory.steps):
                continue
            hit, state = retrieval.hits[0], trajectory.steps[at].observation
            before = [[step.observation, step.action] for step in trajectory.steps[max(0, at - history) : at]]
            name = record_id("probe", trajectory.id, at, hit.record_id)
            probe = Probe(
                name,
                trajectory.env,
                trajectory.goal,
                hit.memory,
                hit.source_state,
                state,
                "",
                "",
                "",
                hit.record_id,
                before,
            )
            found.append((trajectory, probe, Case(trajectory.goal, state, hit.memory, hit.source_state, memories)))
    return found


def build(trajectories: Sequence[Trajectory], most: int, history: int = 3) -> list[Probe]:
    """At most `most` probes by rules: no two with the same task, memory and s-, the rules in turn as far as they go."""
    by_rule: dict[str, list[Probe]] = {}
    known: set[tuple[str, str, str]] = set()
    for _, probe, case in cases(trajectories, history):
        for edit in edits(case):
            key = (probe.goal, probe.memory, edit.state)
            if key not in known:
                known.add(key)
                by_rule.setdefault(edit.rule, []).append(with_edit(probe, edit))
    queues = [by_rule[rule] for rule in sorted(by_rule)]
    chosen: list[Probe] = []
    while len(chosen) < most and any(queues):
        chosen += [queue.pop(0) for queue in queues if queue][: most - len(chosen)]
    return sorted(chosen, key=lambda probe: probe.id)


def with_edit(probe: Probe, edit: Edit) -> Probe:
    """The probe with its s-."""
    changes = {"id": record_id(probe.id, edit.rule), "s_minus": edit.state, "flip": edit.flip, "rule": edit.rule}
    return Probe(**{**asdict(probe), **changes})


def write_probes(path: Path, probes: Sequence[Probe]) -> None:
    """One probe a line."""
    write_jsonl(path, [asdict(probe) for probe in probes])


def read_probes(path: Path) -> list[Probe]:
    """The probes of a file. Raises `EvaluationError` naming the line that is none."""
    if not path.is_file():
        raise EvaluationError(f"There are no probes at {path}; make some with `mh-train probe build`.")
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            found.append(Probe(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise EvaluationError(f"{path} line {number} is no probe ({error}).") from error
    return found


def label(text: str, memory: str, strict: bool = False) -> Label:
    """What a reconstruct completion made of its memory.

    Rejected: no guidance comes of it (lenient), or exactly `<EMPTY>` (strict; other texts without guidance are then
    malformed). Unchanged: within `UNCHANGED` of the memory in words. Else adapted."""
    reply = parse_reconstruct(text)
    if not reply.guidance:
        return "rejected" if not strict or text.strip() == EMPTY else "malformed"
    return "unchanged" if edit_distance(reply.guidance, memory) <= UNCHANGED else "adapted"


def report(probes: Sequence[Probe], before: Sequence[str], after: Sequence[str]) -> dict[str, Any]:
    """Completions for s+ and s- -> shares of labels before and after, lenient and strict, in all and by rule.

    `shift` is the paired difference (after - before) of the share of rejections with its bootstrap interval over
    probes; `moved` the share of probes whose completion differs at all."""
    rows = list(zip(probes, before, after, strict=True))
    if not rows:
        raise EvaluationError("There are no probes to report on; build some first.")
    rules = {rule: [row for row in rows if row[0].rule == rule] for rule in sorted({probe.rule for probe in probes})}
    return {"all": _shares(rows), "by_rule": {rule: _shares(part) for rule, part in rules.items()}}


def markdown(result: Mapping[str, Any]) -> str:
    """The report as one table (MemHarness table 4b)."""
    lines = [
        f"| probes | n | reading | {' | '.join(LABELS)} | rejected, after - before | text differs |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, part in {"all": result["all"], **result["by_rule"]}.items():
        for reading in ("lenient", "strict"):
            shares, shift = part[reading], part[reading]["shift"]
            cells = [f"{100 * shares['before'][one]:.1f} → {100 * shares['after'][one]:.1f}" for one in LABELS]
            change = f"{100 * shift['difference']:+.1f} [{100 * shift['low']:+.1f}, {100 * shift['high']:+.1f}]"
            differs = f"{100 * part['moved']:.1f}"
            lines.append(f"| {name} | {part['probes']} | {reading} | {' | '.join(cells)} | {change} | {differs} |")
    return "\n".join(lines) + "\n"


def noise(probe: Probe) -> int:
    """The sampling key of a probe's completions, the same for s+ and s-."""
    return noise_key("probe", probe.id)


def _shares(rows: Sequence[tuple[Probe, str, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {"probes": len(rows), "moved": sum(a != b for _, a, b in rows) / len(rows)}
    for reading in ("lenient", "strict"):
        strict = reading == "strict"
        told = [(probe.id, label(a, probe.memory, strict), label(b, probe.memory, strict)) for probe, a, b in rows]
        counts = {
            side: {one: sum(t[i] == one for t in told) / len(told) for one in LABELS} for side, i in _SIDES.items()
        }
        values = {side: {t[0]: float(t[i] == "rejected") for t in told} for side, i in _SIDES.items()}
        shift = paired_bootstrap(TaskValues("probes", values["after"]), TaskValues("probes", values["before"]))
        pairs = {f"{a} to {b}": sum(t[1:] == (a, b) for t in told) for a in LABELS for b in LABELS}
        found[reading] = {**counts, "shift": asdict(shift), "pairs": {k: n for k, n in pairs.items() if n}}
    return found


_SIDES = {"before": 1, "after": 2}
