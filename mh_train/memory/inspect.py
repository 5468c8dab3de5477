"""`mh-train bank list|show|stats|history|diff|why`: what a bank holds and why, as tables of plain values.

Why: a memory that misleads an agent must be found, understood and traced to where it was learnt. The command line
prints what these functions return; nothing here changes a bank.
Run: `mh-train bank list runs/quickstart`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mh_train.agent.types import MemoryQuery
from mh_train.config.schema import MemoryConfig
from mh_train.memory.bankfile import BankFile
from mh_train.memory.embed import Embedder
from mh_train.memory.health import health
from mh_train.memory.reader import BankReader
from mh_train.memory.records import Record
from mh_train.memory.view import BankView

SHORT = 80
NESTED = ("usage", "descriptor", "signature", "provenance", "timeline", "conflict_links", "covers", "lost_to")
KINDS = {"procedural_hint": "hint", "tool_usage": "tool", "failure_avoidance": "guard"}


@dataclass(frozen=True)
class Table:
    """A title, column names, and rows of plain values."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def list_records(
    bank: BankFile, state: str = "", kind: str = "", env: str = "", contains: str = "", limit: int = 0
) -> Table:
    """Records by utility, the best first; filters are exact (`kind` also by its short name), `contains` searches all
    texts without regard to case."""
    chosen = [
        r
        for r in bank.state.records.values()
        if (not state or r.state == state)
        and (not kind or kind in (r.type, KINDS[r.type]))
        and (not env or r.env == env)
        and contains.casefold() in r.lexical_text().casefold()
    ]
    chosen.sort(key=lambda r: (not r.retrievable, -r.usage.utility, r.id))
    rows = [
        (
            r.id,
            r.state + (" *" if r.pinned else ""),
            KINDS[r.type],
            round(r.usage.utility, 2),
            r.usage.c_use,
            r.usage.c_succ,
            *((round(r.descriptor.reward, 2), round(r.descriptor.confidence, 2)) if r.descriptor else ("", "")),
            shortened(r.content),
        )
        for r in (chosen[:limit] if limit else chosen)
    ]
    title = f"{len(chosen)} of {len(bank.state.records)} memories in {bank.path} (* pinned)"
    return Table(title, ("id", "state", "type", "s", "used", "won", "R", "c", "memory"), tuple(rows))


def show(bank: BankFile, prefix: str) -> Table:
    """Everything about one record: its fields, its origin, its links with their texts, its timeline."""
    record = bank.find(prefix)
    data = record.to_json()
    rows: list[tuple[str, Any]] = [
        (name, data[name]) for name in data if name not in NESTED and data[name] not in ("", None)
    ]
    rows += [(f"usage {name}", value) for name, value in data["usage"].items()]
    rows.append(("usage utility", round(record.usage.utility, 3)))
    rows += [(f"descriptor {name}", value) for name, value in (data["descriptor"] or {}).items()]
    rows += [(f"signature {name}", value) for name, value in data["signature"].items() if value]
    rows += [("learnt", f"{p.trajectory} step {p.step}, task {p.task}, update {p.update}") for p in record.provenance]
    rows += [("conflict", _named(bank, other, record)) for other in record.conflict_links]
    rows += [("covers", _named(bank, other, record)) for other in record.covers]
    judged = [e for e in bank.events if e.kind == "verify" and record.id in (e.id, _heir(bank, e.id))]
    rows += [(f"view of {e.id}, update {e.update}", line) for e in judged for line in _views(e.data)]
    rows += [("timeline", f"update {c.update}: {c.event} by {c.actor}: {c.reason}") for c in record.timeline]
    return Table(f"Memory {record.id}", ("field", "value"), tuple(rows))


def stats(bank: BankFile) -> Table:
    """Health numbers of the bank, and its events by kind."""
    rows: list[tuple[str, Any]] = [("digest", bank.digest), ("embedder", bank.fingerprint.name)]
    rows.append(("last update", bank.state.update))
    rows += [
        (name.removeprefix("memory/"), round(value) if value == round(value) else round(value, 4))
        for name, value in health(bank.state).items()
    ]
    rows += [(f"events {kind}", count) for kind, count in sorted(Counter(e.kind for e in bank.events).items())]
    return Table(f"Bank at {bank.path}", ("what", "value"), tuple(rows))


def history(bank: BankFile, prefix: str = "", limit: int = 0) -> Table:
    """Journal events, newest last; of one record with `prefix` (uses included, which timelines leave out)."""
    name = bank.find(prefix).id if prefix else ""
    events = [e for e in bank.events if not name or name in (e.id, e.data.get("other"))]
    rows = [
        (e.update, e.kind, e.id, e.actor, e.reason, _detail(e.data)) for e in (events[-limit:] if limit else events)
    ]
    return Table(f"{len(events)} events", ("update", "event", "id", "actor", "reason", "detail"), tuple(rows))


def diff(a: BankFile, b: BankFile) -> Table:
    """Which records were added, lost or changed from bank a to bank b, and in which fields."""
    old, new = a.state.records, b.state.records
    rows: list[tuple[str, str, str]] = []
    for name in sorted({*old, *new}):
        if name not in old or name not in new:
            where = new if name in new else old
            rows.append(("added" if name in new else "missing", name, shortened(where[name].content)))
        elif old[name] != new[name]:
            before, after = old[name].to_json(), new[name].to_json()
            changed = [f"{k}: {before[k]} -> {after[k]}" for k in after if before[k] != after[k] and k != "timeline"]
            rows.append(("changed", name, shortened("; ".join(changed), 200)))
    return Table(f"{a.path} -> {b.path}", ("what", "id", "detail"), tuple(rows))


def why(
    bank: BankFile, embedder: Embedder, config: MemoryConfig, text: str, env: str, goal: str = "", observation: str = ""
) -> Table:
    """What a query would retrieve and why: every candidate with its score, each term as its signed share of the
    score, and whether it was injected or what stopped it. The terms of a row sum to its score."""
    view = BankView(bank.state, bank.fingerprint)
    reader = BankReader(view, embedder, config)
    query = MemoryQuery(text, env, "", "", goal, observation)
    vectors = embedder.encode([text])
    injected = {hit.record_id for hit in reader.rank(vectors, [query])[0]}
    relevance = view.relevance(vectors, [query], config.lexical_weight if config.hybrid else 0.0)
    rows: list[tuple[Any, ...]] = []
    for role, scored in reader.score(relevance, [query]).items():
        candidates = [*scored.order(0), *(i for i in range(scored.rows.shape[1]) if not scored.valid[0, i])]
        for i in candidates:
            record = view.records[scored.rows[0, i]]
            if relevance.total[0, scored.rows[0, i]] < -1e9:
                continue
            passed = bool(scored.valid[0, i])
            outcome = "injected" if record.id in injected else "over the budget or a copy" if passed else "filtered"
            terms = scored.terms(0, i) if passed else {}
            told = ", ".join(f"{name} {share:+.3f}" for name, share in terms.items())
            score = round(float(scored.scores[0, i]), 4) if passed else ""
            r = round(float(relevance.total[0, scored.rows[0, i]]), 4)
            rows.append((role, outcome, record.id, score, r, told, shortened(record.content)))
    columns = ("role", "outcome", "id", "score", "relevance", "terms", "memory")
    return Table(f"Why, for {text!r} in {env}", columns, tuple(rows))


def shortened(text: str, width: int = SHORT) -> str:
    """One line of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."


def _heir(bank: BankFile, name: str) -> str:
    """The record that a merged one went into, or itself."""
    return bank.state.records[name].superseded_by or name


def _named(bank: BankFile, name: str, record: Record) -> str:
    other = bank.state.records[name]
    lost = " (won)" if name in record.lost_to else ""
    return f"{name}{lost} [{other.state}] {shortened(other.content)}"


def _detail(data: Mapping[str, Any]) -> str:
    """The data of an event in a line; verifier views with the mean of each criterion, in the order of the journal."""
    hidden = ("record", "vector", "fields", "views")
    told: Sequence[str] = [f"{k}={v}" for k, v in data.items() if k not in hidden and v]
    return "\n".join([*([shortened(", ".join(told), 120)] if told else []), *_views(data)])


def _views(data: Mapping[str, Any]) -> list[str]:
    """`full: verified_success; task_completion 1.00, ...; 4 spans found`, one line per view."""
    return [
        f"{view['view']}: {view['label']}; "
        + ", ".join(f"{name} {mean:.2f} ± {spread:.2f}" for name, (mean, spread) in view["scores"].items())
        + f"; {view['quoted']} spans found"
        for view in data.get("views", ())
    ]
