"""What each journal event does to the records: the bank as a pure function of its journal.

Why: live updates, replay after a crash and `mh-train bank history` must agree to the byte.
Invariants: `apply` depends on the state and the event alone; no record is ever removed (archived is a state);
conflict links are symmetric; every change but a use leaves an entry in the record's timeline.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mh_train.memory.journal import Event, unpack_vector
from mh_train.memory.records import Change, Descriptor, MemoryStoreError, Record, Signature, State, Usage


@dataclass
class BankState:
    """All records and their vectors (d,) by id, and the update of the last boundary."""

    records: dict[str, Record] = field(default_factory=dict)
    vectors: dict[str, np.ndarray] = field(default_factory=dict)
    update: int = -1

    def apply(self, event: Event) -> None:
        """Apply one event; a rejected candidate leaves no trace but its journal line. Raises `MemoryStoreError` for an
        event that cannot follow this state."""
        if event.kind == "reject":
            return
        if event.kind == "add":
            if event.id in self.records:
                raise MemoryStoreError(f"The journal adds memory {event.id} twice.")
            self.records[event.id] = Record.from_json(event.data["record"])
            self.vectors[event.id] = unpack_vector(event.data["vector"])
            return
        if event.id not in self.records:
            raise MemoryStoreError(f"The journal changes memory {event.id}, which it never added.")
        _HANDLERS[event.kind](self, event)

    def put(self, record: Record, event: Event) -> None:
        """Store a changed record with the event in its timeline."""
        change = Change(event.update, event.kind, event.actor, event.reason)
        self.records[record.id] = replace(record, timeline=(*record.timeline, change))


def _verify(state: BankState, event: Event) -> None:
    """What each verifier view said stays in the journal; what they amount to is the record's descriptor already."""


def _use(state: BankState, event: Event) -> None:
    record = state.records[event.id]
    delta = Usage(**event.data, last_used=event.update)
    state.records[event.id] = replace(record, usage=record.usage + delta)


def _state(state: BankState, event: Event) -> None:
    state.put(replace(state.records[event.id], state=event.data["state"]), event)


def _archive(state: BankState, event: Event) -> None:
    by = event.data.get("superseded_by", state.records[event.id].superseded_by)
    state.put(replace(state.records[event.id], state="archived", superseded_by=by), event)


def _pin(state: BankState, event: Event) -> None:
    state.put(replace(state.records[event.id], pinned=event.data["pinned"]), event)


def _revise(state: BankState, event: Event) -> None:
    state.put(replace(state.records[event.id], **_fields(event.data["fields"])), event)
    if "vector" in event.data:
        state.vectors[event.id] = unpack_vector(event.data["vector"])


def _conflict(state: BankState, event: Event) -> None:
    """Link both ends; `data.other` is the other end, `data.loser`, where there is one, the end that counts for less."""
    for mine, other in ((event.id, event.data["other"]), (event.data["other"], event.id)):
        record = state.records[mine]
        links = tuple(sorted({*record.conflict_links, other}))
        lost = tuple(sorted({*record.lost_to, other})) if event.data.get("loser") == mine else record.lost_to
        state.put(replace(record, conflict_links=links, lost_to=lost), event)


def _merge(state: BankState, event: Event) -> None:
    """`data.other` goes into `id`: provenance and usage are joined, `data.fields` replace the winner's, the other is
    archived."""
    winner, loser = state.records[event.id], state.records[event.data["other"]]
    provenance = tuple(dict.fromkeys((*winner.provenance, *loser.provenance)))
    changed = replace(
        winner, usage=winner.usage + loser.usage, provenance=provenance, **_fields(event.data.get("fields", {}))
    )
    state.put(changed, event)
    if "vector" in event.data:
        state.vectors[event.id] = unpack_vector(event.data["vector"])
    archived: State = "archived"
    state.put(replace(loser, state=archived, superseded_by=winner.id), event)


def _fields(values: dict[str, Any]) -> dict[str, Any]:
    """JSON values of record fields as their types."""
    values = dict(values)
    if values.get("descriptor"):
        values["descriptor"] = Descriptor(**values["descriptor"])
    if "signature" in values:
        values["signature"] = Signature.from_json(values["signature"])
    return values


_HANDLERS = {
    "verify": _verify,
    "use": _use,
    "state": _state,
    "revise": _revise,
    "merge": _merge,
    "conflict": _conflict,
    "prune": _archive,
    "archive": _archive,
    "pin": _pin,
}
