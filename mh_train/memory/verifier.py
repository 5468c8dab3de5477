"""The verifier (SPEC 5, MemGuard 3.3): score-token distributions -> reward, uncertainty, views, label, confidence.

Why: the descriptor d = (R, c, label, nu) that rules a record's whole life is computed here, once, from what is visible.
Invariants: R and c lie in [0, 1]; an answer that cannot be read is asked for once more, then its view is counted and
stands as uncertain (c = 0 when there is no other view); hidden outcomes cannot influence anything, for `VisibleEpisode`
does not hold them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mh_train.config.schema import VerifierConfig
from mh_train.engine.base import Message, noise_key
from mh_train.memory.distill import json_values
from mh_train.memory.judge import Judge, JudgeAnswer, JudgeRequest
from mh_train.memory.judge_prompts import CRITERIA, View, verify_messages
from mh_train.memory.records import LABELS, Descriptor, Label, clean_text
from mh_train.memory.visible import VisibleEpisode, holds

ORDERS: dict[View, tuple[str, ...]] = {
    "full": CRITERIA,
    "evidence": CRITERIA[::-1],
    "risk": (*CRITERIA[2:], *CRITERIA[:2]),
}
GOOD = 0.75
"""phi of "at least 4" on the default scale: what task completion and evidence need for a verified success."""


@dataclass(frozen=True)
class Reading:
    """One view of one episode. `means`, `spreads` (C,): expectation and standard deviation of phi under the score
    distribution of each criterion, in the order of `CRITERIA`; `emitted`: phi of the written scores; `found` says
    which evidence spans occur in the log."""

    view: View
    means: tuple[float, ...]
    spreads: tuple[float, ...]
    emitted: tuple[float, ...]
    label: Label
    guard: str = ""
    notes: tuple[str, ...] = ()
    found: tuple[bool, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What a journal keeps of the view: its label, the mean and spread of each criterion, spans that occur."""
        scores = {n: (round(m, 6), round(s, 6)) for n, m, s in zip(CRITERIA, self.means, self.spreads, strict=True)}
        return {"view": self.view, "label": self.label, "scores": scores, "quoted": sum(self.found)}


@dataclass(frozen=True)
class Verdict:
    """What verification says about one episode; `unread`: views whose answer could not be read, also not when asked
    again."""

    descriptor: Descriptor
    uncertainty: float
    readings: tuple[Reading, ...] = ()
    guard: str = ""
    notes: tuple[str, ...] = ()
    unread: int = 0

    @property
    def views(self) -> int:
        """How many views could be read."""
        return len(self.readings)

    @property
    def malformed(self) -> bool:
        """Whether no answer could be read."""
        return self.unread > 0 and not self.readings


def phi(scores: np.ndarray, scale: int) -> np.ndarray:
    """phi(v) = (v - 1) / (G - 1): a score token as a number in [0, 1]."""
    return (scores - 1) / (scale - 1)


def expected(odds: Mapping[int, float] | None, emitted: int, scale: int) -> tuple[float, float]:
    """(mean, standard deviation) of phi under the score distribution, renormalised over 1..G (Eq. 1).

    `odds` are log-probs by score; None means that only the emitted token is known: a one-hot."""
    if odds is None or set(odds) < {*range(1, scale + 1)} or max(odds.values()) == -np.inf:
        return float(phi(np.array(emitted), scale)), 0.0
    values = np.arange(1, scale + 1)
    logits = np.array([odds[int(v)] for v in values])
    weights = np.exp(logits - logits.max())
    weights /= weights.sum()
    points = phi(values, scale)
    mean = float(weights @ points)
    return mean, float(np.sqrt(max(weights @ (points - mean) ** 2, 0.0)))


def reward(means: np.ndarray, weights: Sequence[float]) -> float:
    """R = sum_j w_j mean_rho r (Eq. 1); `means` (V, C), weights normalised here."""
    w = np.asarray(weights, dtype=float)
    return float(means.mean(axis=0) @ (w / w.sum()))


def dispersion(means: np.ndarray) -> float:
    """s: normalised population spread over criteria and, with several views, over views (the larger of the two)."""
    over_criteria = min(1.0, float(means.std(axis=1).mean()) / 0.5)
    over_views = min(1.0, float(means.std(axis=0).mean()) / 0.5)
    return over_criteria if len(means) == 1 else max(over_criteria, over_views)


def boundary(r: float, config: VerifierConfig) -> float:
    """b = max(0, 1 - a / delta_b), a the distance of R to the uncertainty band."""
    distance = max(config.low - r, 0.0) + max(r - config.high, 0.0)
    return max(0.0, 1.0 - distance / config.taper)


def uncertainty(means: np.ndarray, config: VerifierConfig) -> float:
    """u = alpha b + (1 - alpha) s (Eq. 2)."""
    return config.alpha * boundary(reward(means, config.weights), config) + (1 - config.alpha) * dispersion(means)


def ruled(reading: Reading, blocking: bool) -> Label:
    """The label rule: a success needs written scores of at least 4 of 5 for completion and evidence, and no blocking
    error; a view that claims it without them is uncertain."""
    if reading.label == "verified_success" and (blocking or min(reading.emitted[:2]) < GOOD - 1e-9):
        return "uncertain"
    return reading.label


def agreed(labels: Sequence[Label]) -> Label:
    """The label most views give; uncertain when none leads."""
    ranked = Counter(labels).most_common()
    return ranked[0][0] if len(ranked) == 1 or ranked[0][1] > ranked[1][1] else "uncertain"


def confidence(
    readings: Sequence[Reading], label: Label, blocking: bool, weights: Sequence[float], unread: int = 0
) -> float:
    """c in [0, 1], the mean of three parts that this project defines:

    agreement, the share of views that give the final label (an unread one gives none); stability, 1 - the spread of R
    (over views when there are several, else of the score distributions) / 0.5; consistency, the mean of "the view's
    own label obeys the label rule" and of the share of its evidence spans that occur in the log."""
    labels = [ruled(r, blocking) for r in readings]
    agreement = labels.count(label) / (len(labels) + unread)
    rewards = [reward(np.array([r.means]), weights) for r in readings]
    spread = float(np.std(rewards)) if len(readings) > 1 else float(np.mean(readings[0].spreads))
    stability = 1.0 - min(1.0, spread / 0.5)
    obeys = [float(ruled(r, blocking) == r.label) for r in readings]
    quoted = [float(np.mean(r.found)) if r.found else 0.0 for r in readings]
    consistency = (float(np.mean(obeys)) + float(np.mean(quoted))) / 2
    return (agreement + stability + consistency) / 3


def judged(readings: Sequence[Reading], status: str, config: VerifierConfig, update: int, unread: int = 0) -> Verdict:
    """The verdict of all views of one episode; `unread`: further views whose answers could not be read."""
    if not readings:
        return Verdict(Descriptor(0.5, 0.0, "uncertain", update), 1.0, unread=unread)
    means = np.array([r.means for r in readings])
    blocking = status == "tool_error"
    uncertain: Label = "uncertain"
    label = agreed([*(ruled(r, blocking) for r in readings), *[uncertain] * unread])
    c = confidence(readings, label, blocking, config.weights, unread)
    guard = next((r.guard for r in reversed(readings) if r.guard), "")
    descriptor = Descriptor(reward(means, config.weights), c, label, update)
    return Verdict(descriptor, uncertainty(means, config), tuple(readings), guard, readings[0].notes, unread)


async def verify(
    episodes: Sequence[VisibleEpisode],
    names: Sequence[str],
    judge: Judge,
    config: VerifierConfig,
    seed: int,
    update: int,
) -> list[Verdict]:
    """Verify episodes: the full view of all, then evidence and risk views of those with u above the threshold (greedy).

    `names` key the noise of a second try (trajectory ids)."""
    views: tuple[View, ...] = ("full", "evidence", "risk")
    readings: list[list[Reading]] = [[] for _ in episodes]
    unread = [0] * len(episodes)
    pending = list(range(len(episodes)))
    for view in views[: config.views]:
        found = await _read(view, episodes, names, pending, judge, config, seed, update)
        for i in pending:
            readings[i] += [found[i]] if i in found else []
            unread[i] += i not in found
        if view == "full":
            pending = [
                i
                for i in pending
                if i in found and uncertainty(np.array([found[i].means]), config) > config.repeat_above
            ]
    return [judged(r, e.status, config, update, u) for r, e, u in zip(readings, episodes, unread, strict=True)]


async def _read(
    view: View,
    episodes: Sequence[VisibleEpisode],
    names: Sequence[str],
    wanted: Sequence[int],
    judge: Judge,
    config: VerifierConfig,
    seed: int,
    update: int,
) -> dict[int, Reading]:
    """Readings of one view by episode; an unreadable answer is asked for once more, warmer, with its own noise."""
    found: dict[int, Reading] = {}

    def fits(messages: Sequence[Message]) -> bool:
        return judge.fits(messages, config.prompt_tokens, config.max_tokens)

    for attempt, temperature in enumerate((0.0, 0.7)):
        left = [i for i in wanted if i not in found]
        requests = [
            JudgeRequest(
                "verify",
                verify_messages(
                    episodes[i],
                    view,
                    ORDERS[view],
                    config.scale,
                    lambda m: judge.fits(m, config.prompt_tokens, config.max_tokens),
                ),
                noise_key(seed, update, names[i], "verify", view, attempt),
                temperature,
                config.max_tokens,
                config.scale,
                episodes[i],
            )
            for i in left
        ]
        for i, answer in zip(left, await judge.ask(requests) if requests else [], strict=True):
            reading = read(answer, view, episodes[i], config.scale)
            if reading is not None:
                found[i] = reading
    return found


def read(answer: JudgeAnswer, view: View, episode: VisibleEpisode, scale: int) -> Reading | None:
    """One answer as a reading; None when a score or the label cannot be read. Never raises on any text."""
    value = next(
        (v for v in json_values(answer.text) if isinstance(v, dict) and isinstance(v.get("criteria"), dict)), None
    )
    label = value.get("label") if value else None
    if value is None or label not in LABELS:
        return None
    means, spreads, emitted, notes, found = [], [], [], [], []
    log = episode.text()
    for name in CRITERIA:
        entry = value["criteria"].get(name)
        at = re.search(rf'"{name}"\s*:\s*\{{\s*"score"\s*:\s*"?\s*(\d{{1,2}})', answer.text)
        if not isinstance(entry, dict) or at is None or not 1 <= int(at.group(1)) <= scale:
            return None
        mean, spread = expected(answer.odds(at.start(1)), int(at.group(1)), scale)
        means.append(mean)
        spreads.append(spread)
        emitted.append(float(phi(np.array(int(at.group(1))), scale)))
        notes.append(f"{name}: {clean_text(str(entry.get('rationale', '')))}")
        found.append(holds(log, str(entry.get("evidence_span", ""))))
    guard = clean_text(str(value.get("failure_guard", "")))
    guard = "" if guard.upper() in ("", "NONE", "NULL") else guard
    return Reading(view, tuple(means), tuple(spreads), tuple(emitted), label, guard, tuple(notes), tuple(found))


def from_status(episode: VisibleEpisode, config: VerifierConfig, update: int) -> Verdict:
    """`verifier.source=runtime_status`: a verdict without a model, from what the agent saw.

    The environment closing the episode counts as completion (5) with evidence 4, the step limit as failure (1, 2), an
    unknown status as 3; execution validity falls with the share of rejected actions; generalizability is 3."""
    closed, unknown = episode.status == "closed", episode.status == "unknown"
    errors = float(np.mean([bool(s.error) for s in episode.steps])) if episode.steps else 1.0
    scores = (3, 3) if unknown else (5, 4) if closed else (1, 2)
    points = np.array([*phi(np.array(scores), 5), 1.0 - errors, 0.5])
    label: Label = "uncertain" if unknown else "verified_success" if closed else "verified_fail"
    reading = Reading("full", tuple(points), (0.0,) * 4, tuple(points), label, found=(True,))
    return judged([reading], episode.status, config, update)
