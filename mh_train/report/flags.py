"""Health of a run in words: what a person would notice on the curves, said as one sentence each.

Why: a collapsed policy or a memory that nobody asks looks like a flat line among a hundred. Invariants: every flag
names the metric it read and what it saw; thresholds are those of `docs/metrics.md`; a run without a series has no flag
on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RECENT = 5
Values = Sequence[float | None]


@dataclass(frozen=True)
class Flag:
    """One finding: `level` is bad, watch or good; `metric` is where to look."""

    level: str
    text: str
    metric: str


@dataclass(frozen=True)
class Limit:
    """A metric whose mean over the last updates must stay on one side of a limit."""

    metric: str
    wrong: Callable[[float], bool]
    level: str
    text: str


LIMITS = (
    Limit("learn/mismatch_kl", lambda v: abs(v) > 0.01, "bad", "sampler and trainer disagree: mismatch KL {v:.3g}"),
    Limit(
        "learn/clip_fraction", lambda v: v > 0.2, "watch", "{v:.0%} of the tokens are clipped; the steps are too large"
    ),
    Limit("learn/kl", lambda v: v > 1, "watch", "the policy is {v:.2g} nats per token away from its reference"),
    Limit("learn/grad_norm", lambda v: v > 50, "watch", "gradients are large: norm {v:.3g} before clipping"),
    Limit(
        "learn/frac_flat_groups",
        lambda v: v > 0.8,
        "watch",
        "{v:.0%} of the groups teach nothing: all their episodes end alike",
    ),
    Limit("env/truncated", lambda v: v > 0.5, "watch", "{v:.0%} of the episodes run into the horizon"),
    Limit("env/shortened_prompts", lambda v: v > 0.5, "watch", "{v:.2g} prompts per episode had to be shortened"),
    Limit("reward/protocol", lambda v: v < 0.5, "watch", "only {v:.0%} of the episodes keep to the turn format"),
    Limit(
        "memory/mirror_failures",
        lambda v: v > 0,
        "watch",
        "the Milvus mirror fails ({v:.2g} per update); the bank itself is safe",
    ),
    Limit("memory/unknown_hits", lambda v: v > 0, "bad", "episodes retrieved memories that the bank does not know"),
    Limit(
        "memory/verifier_malformed", lambda v: v > 0.1, "watch", "{v:.2g} verifications per update could not be read"
    ),
)
"""Text: `{v}` is the mean over the last updates."""


def flags(series: Mapping[str, Values], updates: Sequence[int]) -> list[Flag]:
    """All findings of a run, the worst first; a single good one when there are none."""
    if not updates:
        return [Flag("watch", "No update is finished yet.", "")]
    found = [*_broken(series, updates), *_collapse(series, updates), *_limits(series), *_learning(series)]
    found += [*_episodes(series), *_memory(series)]
    order = ("bad", "watch", "good")
    if not any(flag.level != "good" for flag in found):
        found.append(
            Flag("good", "Nothing unusual: entropy, gradients, groups, episodes and memory are in their ranges.", "")
        )
    return sorted(found, key=lambda flag: order.index(flag.level))


def recent(values: Values, count: int = RECENT) -> float | None:
    """Mean of the last values, None when there are none."""
    found = [value for value in values[-count:] if value is not None]
    return sum(found) / len(found) if found else None


def _broken(series: Mapping[str, Values], updates: Sequence[int]) -> Iterator[Flag]:
    for name in ("learn/loss", "learn/grad_norm", "learn/entropy", "reward/mean"):
        broken = [update for update, value in zip(updates, series.get(name, ()), strict=False) if value is None]
        if broken:
            yield Flag("bad", f"{name} is not a finite number in {_some(broken)}.", name)


def _collapse(series: Mapping[str, Values], updates: Sequence[int]) -> Iterator[Flag]:
    """A policy whose entropy stays near zero has stopped exploring."""
    values = series.get("learn/entropy", ())
    low = 0
    while low < len(values) and (value := values[-1 - low]) is not None and value < 0.02:
        low += 1
    if low >= min(3, len(values)) and low:
        since = updates[len(values) - low]
        yield Flag("bad", f"Policy collapsed: entropy {values[-1]:.2g} since update {since}.", "learn/entropy")


def _limits(series: Mapping[str, Values]) -> Iterator[Flag]:
    for limit in LIMITS:
        value = recent(series.get(limit.metric, ()))
        if value is not None and limit.wrong(value):
            text = limit.text.format(v=value)
            yield Flag(limit.level, f"{text[0].upper()}{text[1:]} (last {RECENT} updates).", limit.metric)


def _learning(series: Mapping[str, Values]) -> Iterator[Flag]:
    """Whether success moved, from the first fifth to the last."""
    values = series.get("env/success", ())
    part = len(values) // 5
    if part < 2:
        return
    before, after = recent(values[:part], part), recent(values, part)
    if before is None or after is None:
        return
    told = f"from {before:.2f} in the first {part} updates to {after:.2f} in the last {part}"
    if after > before + 0.03:
        yield Flag("good", f"Success rose {told}.", "env/success")
    elif after < before - 0.03:
        yield Flag("bad", f"Success fell {told}.", "env/success")
    else:
        yield Flag("watch", f"Success did not move: {told}.", "env/success")


def _episodes(series: Mapping[str, Values]) -> Iterator[Flag]:
    episodes, failures = recent(series.get("env/episodes", ())), recent(series.get("env/failures", ()))
    if episodes and failures and failures / episodes > 0.01:
        yield Flag("watch", f"{failures / episodes:.1%} of the episodes failed and were tried again.", "env/failures")
    steps, lost = recent(series.get("env/steps", ())), recent(series.get("env/malformed", ()))
    if steps and lost and lost / steps > 0.2:
        yield Flag(
            "watch", f"{lost / steps:.0%} of the steps are lost to answers without a readable action.", "env/malformed"
        )


def _memory(series: Mapping[str, Values]) -> Iterator[Flag]:
    """Only for runs that have a bank."""
    total = recent(series.get("memory/total", ()))
    if total is None:
        return
    asked = recent(series.get("memory/retrievals", ())) or 0.0
    accepted, rejected = (recent(series.get(f"memory/{name}", ())) or 0.0 for name in ("accepted", "rejected"))
    if total > 0 and asked < 0.05:
        yield Flag("watch", f"The policy hardly asks its memory: {asked:.2g} times per episode.", "memory/retrievals")
    elif accepted + rejected > 0.05 and accepted < 0.05 * (accepted + rejected):
        yield Flag("watch", "Nearly every memory that comes back is rejected.", "memory/accepted")
    requests, lost = (
        recent(series.get("memory/distill_requests", ())),
        recent(series.get("memory/distill_unparsed", ())),
    )
    if requests and lost and lost / requests > 0.05:
        text = f"{lost / requests:.0%} of the distilled texts could not be used."
        yield Flag("watch", text, "memory/distill_unparsed")
    if len(series["memory/total"]) > RECENT and total == 0:
        yield Flag("watch", "The bank is still empty.", "memory/total")


def _some(updates: Sequence[Any]) -> str:
    told = ", ".join(map(str, updates[:4]))
    return f"update{'s' if len(updates) > 1 else ''} {told}{' and more' if len(updates) > 4 else ''}"
