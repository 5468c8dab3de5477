"""The memory record of SPEC 5: what one experience is, where it came from, how it fared, and why it is in its state.

Why: distillation, governance, retrieval, journal, snapshot and Milvus all speak of the same object. A MemHarness entry
{"situation", "memory"} is a record whose `content` is the memory and whose descriptor is empty.
Invariants: a record never changes (a change is a new record under the same id); ids match `[A-Za-z0-9_-]{1,64}` and
depend on the record's origin and text alone, so that equal runs give equal ids; text holds no NUL and no lone
surrogate.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

RecordType = Literal["procedural_hint", "tool_usage", "failure_avoidance"]
State = Literal["provisional", "active", "summary", "archived"]
Label = Literal["verified_success", "verified_fail", "uncertain"]
Risk = Literal["none", "low", "medium", "high"]
LABELS: tuple[Label, ...] = ("verified_success", "verified_fail", "uncertain")
LABEL_WORTH: dict[Label, float] = {"verified_success": 1.0, "uncertain": 0.5, "verified_fail": 0.0}
RETRIEVABLE: tuple[State, ...] = ("active", "summary")
ID_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")


class MemoryStoreError(RuntimeError):
    """The bank or its mirror cannot be read or written; the message says what to do."""


@dataclass(frozen=True)
class Descriptor:
    """The verifier's d = (R, c, label, nu): reward and confidence in [0, 1]; nu is the update of the verification."""

    reward: float
    confidence: float
    label: Label
    verified_at: int


@dataclass(frozen=True)
class Usage:
    """How often trajectories retrieved the record, counted once per trajectory (`last_used` is an update, -1 =
    never)."""

    c_use: int = 0
    c_succ: int = 0
    accepted: int = 0
    rejected: int = 0
    accepted_succ: int = 0
    last_used: int = -1

    def __add__(self, other: Usage) -> Usage:
        """Both counted together (a merged or summarised record)."""
        counts = {name: getattr(self, name) + getattr(other, name) for name in USAGE_COUNTS}
        return Usage(last_used=max(self.last_used, other.last_used), **counts)

    @property
    def utility(self) -> float:
        """s = (c_succ + 1) / (c_use + 2), SPEC 4."""
        return (self.c_succ + 1) / (self.c_use + 2)


USAGE_COUNTS = ("c_use", "c_succ", "accepted", "rejected", "accepted_succ")


@dataclass(frozen=True)
class Provenance:
    """Where a record (or a part that was merged into it) was learnt."""

    run: str = ""
    update: int = 0
    task: str = ""
    trajectory: str = ""
    step: int = 0


@dataclass(frozen=True)
class Signature:
    """What a record recommends and when (SPEC 5: type, task pattern, action, scope, condition); made by
    `memory.signature`.

    `action` is polarity and action categories in order, `options` the numbers and named things that the advice hangs
    on, `condition` the named things that say when it holds."""

    type: str = ""
    task: str = ""
    scope: str = ""
    action: str = ""
    options: tuple[str, ...] = ()
    condition: tuple[str, ...] = ()

    def same_case(self, other: Signature) -> bool:
        """Whether both speak about the same kind of situation: only then can they repeat or contradict each other."""
        return (self.type, self.scope, self.condition) == (other.type, other.scope, other.condition)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Signature:
        """The inverse of `asdict` after JSON turned tuples into lists."""
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}
        return cls(**values)


@dataclass(frozen=True)
class Change:
    """One entry of a record's timeline."""

    update: int
    event: str
    actor: str
    reason: str


@dataclass(frozen=True)
class Record:
    """One memory. `situation` was written by a model, `source_state` is the real observation it was learnt at."""

    id: str
    env: str
    task_type: str
    content: str
    type: RecordType = "procedural_hint"
    title: str = ""
    description: str = ""
    applicability: str = ""
    risk: Risk = "none"
    guard_condition: str = ""
    evidence_span: str = ""
    situation: str = ""
    source_state: str = ""
    state: State = "active"
    source_status: str = "unknown"
    quality: float = 0.5
    descriptor: Descriptor | None = None
    usage: Usage = Usage()
    signature: Signature = Signature()
    conflict_links: tuple[str, ...] = ()
    lost_to: tuple[str, ...] = ()
    superseded_by: str = ""
    covers: tuple[str, ...] = ()
    provenance: tuple[Provenance, ...] = ()
    pinned: bool = False
    timeline: tuple[Change, ...] = field(default=())

    @property
    def created(self) -> int:
        """The update the record was first learnt in."""
        return self.provenance[0].update if self.provenance else 0

    @property
    def reason(self) -> str:
        """Why the record is as it is: the reason of its latest change."""
        return self.timeline[-1].reason if self.timeline else ""

    @property
    def verified(self) -> int:
        """The update of the last verification, -1 without one."""
        return self.descriptor.verified_at if self.descriptor else -1

    @property
    def last_sign(self) -> int:
        """The last update in which the record was learnt, merged, verified or used."""
        return max(self.verified, self.usage.last_used, -1, *(source.update for source in self.provenance))

    @property
    def retrievable(self) -> bool:
        """Whether the record may be injected at all."""
        return self.state in RETRIEVABLE

    def key_text(self) -> str:
        """What is embedded: everything said about the experience, without the raw source state."""
        parts = (self.title, self.description, self.situation, self.content, self.applicability, self.evidence_span)
        return "\n".join(part for part in parts if part)

    def lexical_text(self) -> str:
        """What BM25 reads: the key text and the words of the state it was learnt at."""
        return f"{self.key_text()}\n{self.source_state}"

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` gives the same record back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """The record of a journal, snapshot or export line. Raises `MemoryStoreError` when it is not one."""
        try:
            known = {f.name for f in fields(cls)}
            values = {name: value for name, value in data.items() if name in known}
            values["descriptor"] = Descriptor(**values["descriptor"]) if values.get("descriptor") else None
            values["usage"] = Usage(**values.get("usage", {}))
            values["signature"] = Signature.from_json(values.get("signature", {}))
            values["provenance"] = tuple(Provenance(**part) for part in values.get("provenance", ()))
            values["timeline"] = tuple(Change(**part) for part in values.get("timeline", ()))
            for name in ("conflict_links", "lost_to", "covers"):
                values[name] = tuple(values.get(name, ()))
            record = cls(**values)
        except (TypeError, ValueError, AttributeError) as error:
            raise MemoryStoreError(f"A memory record cannot be read ({error}); the file is not a bank's.") from error
        if (
            not ID_PATTERN.fullmatch(record.id)
            or record.state not in get_args(State)
            or record.type not in get_args(RecordType)
        ):
            raise MemoryStoreError(f"The memory record {record.id!r} has an unknown id form, state or type.")
        return record


def canonical(value: Any) -> str:
    """The one JSON form of plain data: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def clean_text(text: str) -> str:
    """Text without NUL and lone surrogates (no store takes them); runs of white space at the ends removed."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd").strip()


def record_id(*parts: str | int) -> str:
    """A deterministic id from origin and text: 80 bits of BLAKE2b over the parts."""
    return "m" + hashlib.blake2b(canonical(parts).encode(), digest_size=10).hexdigest()
