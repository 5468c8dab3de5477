"""Admission (SPEC 5): the descriptor decides whether a candidate becomes active, waits, guards, or is turned away.

Why: relevant but unproven experience must not carry the influence of verified experience.
Invariant: the state and its reason depend on the record's type, its guard and its descriptor alone.
Label noise for robustness studies (`memory.noise`, MemGuard D.5) enters here, before admission, and nowhere else.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from mh_train.config.schema import AdmissionConfig
from mh_train.engine.base import noise_key
from mh_train.memory.records import LABEL_WORTH, LABELS, Descriptor, Label, Record, State
from mh_train.memory.verifier import Verdict


def admit(record: Record, config: AdmissionConfig) -> tuple[State | None, str]:
    """(state, reason); None turns the candidate away.

    Positive memories: active iff R >= `reward` and c >= `confidence` (without `use_reward`: iff verified success and
    c); turned away on verified failure or R below `reject_below`; else provisional. Failure-avoidance memories enter
    the guard pool (state active; retrieval keeps them on the guard path) when the label is certain and c suffices,
    else they wait. Records without a descriptor become active only when admission is off."""
    d = record.descriptor
    if record.type == "failure_avoidance" and not config.guards:
        return None, "failure memories are switched off"
    if not config.enabled:
        return "active", "admission is off"
    if d is None:
        return "provisional", "not verified"
    if record.type == "failure_avoidance":
        return _admit_guard(record, d, config)
    measured = f"R {d.reward:.2f}, c {d.confidence:.2f}, {d.label}"
    if d.label == "verified_fail":
        return None, f"verified failure ({measured})"
    if config.use_reward and d.reward < config.reject_below:
        return None, f"reward below {config.reject_below} ({measured})"
    good = d.reward >= config.reward if config.use_reward else d.label == "verified_success"
    if good and d.confidence >= config.confidence:
        return "active", f"admitted ({measured})"
    return "provisional", f"below the activation thresholds ({measured})"


def _admit_guard(record: Record, d: Descriptor, config: AdmissionConfig) -> tuple[State | None, str]:
    measured = f"c {d.confidence:.2f}, {d.label}"
    if not record.guard_condition:
        return None, "a failure memory without a condition"
    if d.label == "uncertain" or d.confidence < config.confidence:
        return "provisional", f"not certain enough for the guard pool ({measured})"
    return "active", f"admitted to the guard pool ({measured})"


def with_verdict(record: Record, verdict: Verdict, status: str, config: AdmissionConfig) -> Record:
    """The candidate with its descriptor, quality and runtime-visible source status."""
    return replace(
        record,
        descriptor=verdict.descriptor,
        source_status=status,
        quality=quality(record.type == "failure_avoidance", verdict.descriptor, config.use_reward),
    )


def quality(guard: bool, descriptor: Descriptor, use_reward: bool) -> float:
    """q of the retrieval score: R; without the reward in use, the label's worth (1, .5, 0); for guards, c.

    A guard comes from an episode that failed, so that R says nothing about how sound its warning is."""
    if guard:
        return descriptor.confidence
    return descriptor.reward if use_reward else LABEL_WORTH[descriptor.label]


def corrupt(
    verdicts: Mapping[str, Verdict], share: float, config: AdmissionConfig, seed: int, update: int
) -> dict[str, Verdict]:
    """Replace labels of a random `share` of verdicts by another label; R and c move to the nearest values that the new
    label would have (MemGuard D.5). Every draw depends on (seed, update, trajectory id) alone."""
    out = dict(verdicts)
    for name, verdict in verdicts.items():
        rng = random.Random(noise_key(seed, update, name, "label noise"))
        if rng.random() < share:
            label = rng.choice([other for other in LABELS if other != verdict.descriptor.label])
            out[name] = replace(verdict, descriptor=_moved(verdict.descriptor, label, config))
    return out


def _moved(d: Descriptor, label: Label, config: AdmissionConfig) -> Descriptor:
    if label == "verified_success":
        r, c = max(d.reward, config.reward), max(d.confidence, config.confidence)
    elif label == "verified_fail":
        r, c = min(d.reward, config.reject_below), max(d.confidence, config.confidence)
    else:
        r = min(max(d.reward, config.reject_below), config.reward - 0.05)
        c = min(d.confidence, config.confidence - 0.05)
    return replace(d, label=label, reward=round(r, 6), confidence=round(c, 6))
