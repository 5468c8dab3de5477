"""From a rollout's trajectories to admitted records: verify -> word -> (label noise) -> attach the descriptor -> admit.

Why: MemHarness' distillation and MemGuard's induction differ in who words a memory, everything after that is shared.
Invariants: with `memory.outcome=verifier` nothing here or after it reads a trajectory's hidden outcome; every
candidate ends as a record with a state, or as a `reject` event with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mh_train.agent.speaker import Speaker
from mh_train.agent.types import Trajectory
from mh_train.config.schema import Judging, MemoryConfig, Outcome, VerifierConfig, Writer
from mh_train.engine.base import Engine
from mh_train.memory.admission import admit, corrupt, with_verdict
from mh_train.memory.distill import DistillPrompts, choose, distill
from mh_train.memory.exemplars import exemplars
from mh_train.memory.induction import Candidate, as_guard, induce
from mh_train.memory.journal import Event
from mh_train.memory.judge import EngineJudge, Judge
from mh_train.memory.records import Change, MemoryStoreError, Record
from mh_train.memory.verifier import Verdict, from_status, verify
from mh_train.memory.visible import VisibleEpisode, visible

ACTOR = "curate"


@dataclass(frozen=True)
class Round:
    """Who answers and what identifies this update's randomness and origin."""

    speaker: Speaker
    engine: Engine
    prompts: DistillPrompts
    judge: Judge | None
    seed: int
    update: int
    run: str


@dataclass
class Verified:
    """Visible episodes and verdicts by trajectory id; empty without a verifier."""

    episodes: dict[str, VisibleEpisode] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)


def make_judge(config: VerifierConfig, speaker: Speaker, engine: Engine) -> Judge | None:
    """The judge of `verifier.source`; None where no model judges. `engine` needs a judge that the stage built."""
    if config.source is Judging.policy:
        return EngineJudge(speaker, engine)
    if config.source is Judging.engine:
        raise MemoryStoreError("memory.verifier.source=engine needs the verifier's engine; give curate(judge=...).")
    return None


async def outcomes(
    trajectories: Sequence[Trajectory], config: MemoryConfig, this: Round
) -> tuple[dict[str, bool], Verified]:
    """What counts as each trajectory's success: the environment's word, or the verifier's label of all of them."""
    if config.outcome is Outcome.environment:
        return {t.id: t.won for t in trajectories}, Verified()
    if config.verifier.source is Judging.off:
        raise MemoryStoreError("memory.outcome=verifier needs a verifier; set memory.verifier.source.")
    verified = await verify_all(trajectories, config, this)
    return {name: v.descriptor.label == "verified_success" for name, v in verified.verdicts.items()}, verified


async def verify_all(trajectories: Sequence[Trajectory], config: MemoryConfig, this: Round) -> Verified:
    """Verify trajectories by `verifier.source`; each keeps its verdict in `extra["verdict"]`, for audits."""
    verifier, names = config.verifier, [t.id for t in trajectories]
    if verifier.source is Judging.off:
        return Verified()
    episodes = [visible(t, verifier.mask_status) for t in trajectories]
    if this.judge is None:
        verdicts = [from_status(episode, verifier, this.update) for episode in episodes]
    else:
        verdicts = await verify(episodes, names, this.judge, verifier, this.seed, this.update)
    for t, verdict in zip(trajectories, verdicts, strict=True):
        d = verdict.descriptor
        told = {"label": d.label, "reward": d.reward, "confidence": d.confidence}
        labels = [reading.label for reading in verdict.readings]
        t.extra["verdict"] = {**told, "uncertainty": verdict.uncertainty, "views": verdict.views, "labels": labels}
    return Verified(dict(zip(names, episodes, strict=True)), dict(zip(names, verdicts, strict=True)))


async def propose(
    trajectories: Sequence[Trajectory], won: dict[str, bool], verified: Verified, config: MemoryConfig, this: Round
) -> tuple[list[Record], list[Event], list[Event], dict[str, float]]:
    """Admitted records (their timeline says why), verify events of them (where a model judged: what each view said,
    before label noise), reject events, and counts of everything on the way."""
    chosen = choose(trajectories, won, config.distill, this.seed, this.update)
    if not verified.verdicts:
        verified = await verify_all(chosen, config, this)
    found, counts = await _worded(chosen, verified, config, this)
    verdicts = corrupt(verified.verdicts, config.noise, config.admission, this.seed, this.update)
    kept: list[Record] = []
    judged: list[Event] = []
    rejected: list[Event] = []
    for i, candidate in found:
        record, fault = candidate.record, candidate.fault
        told = _views(verified.verdicts.get(chosen[i].id)) if this.judge is not None else {}
        verdict = verdicts.get(chosen[i].id)
        if verdict is not None:
            if config.writer is Writer.distill and verdict.descriptor.label == "verified_fail":
                record = as_guard(record, verdict.guard)
            record = with_verdict(record, verdict, verified.episodes[chosen[i].id].status, config.admission)
        state, why = (None, fault) if fault else admit(record, config.admission)
        if state is None:
            data = {"type": record.type, "content": record.content, "trajectory": chosen[i].id, **told}
            rejected.append(Event("reject", record.id, this.update, ACTOR, why, data))
        else:
            added = Change(this.update, "add", ACTOR, f"{record.reason}; {why}")
            kept.append(replace(record, state=state, timeline=(added,)))
            judged += (
                [Event("verify", record.id, this.update, "verifier", f"verdict on {chosen[i].id}", told)]
                if told
                else []
            )
    return kept, judged, rejected, counts | _counts([(chosen[i].id, one) for i, one in found], kept, rejected, verified)


async def _worded(
    chosen: Sequence[Trajectory], verified: Verified, config: MemoryConfig, this: Round
) -> tuple[list[tuple[int, Candidate]], dict[str, float]]:
    if config.writer in (Writer.exemplar, Writer.workflow):
        told = exemplars(chosen, config.writer, this.update, this.run)
        return [(i, Candidate(record)) for i, record in told], {}
    if config.writer is Writer.distill:
        records, counts = await distill(
            chosen, this.speaker, this.engine, this.prompts, config.distill, this.seed, this.update, this.run
        )
        return [(i, Candidate(record)) for i, record in records], counts
    if this.judge is None or not verified.verdicts:
        raise MemoryStoreError(
            "memory.writer=induce needs a model that verifies first; set memory.verifier.source to policy or engine."
        )
    episodes = [verified.episodes[t.id] for t in chosen]
    verdicts = [verified.verdicts[t.id] for t in chosen]
    return await induce(chosen, episodes, verdicts, this.judge, config.verifier, this.seed, this.update, this.run)


def _views(verdict: Verdict | None) -> dict[str, Any]:
    """What a journal keeps of a verdict's views; nothing without a verdict."""
    if verdict is None:
        return {}
    unread = {"unread": verdict.unread} if verdict.unread else {}
    return {"views": [reading.to_json() for reading in verdict.readings], **unread}


def _uncertain(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.descriptor.label == "uncertain"


def _counts(
    found: Sequence[tuple[str, Candidate]], kept: Sequence[Record], rejected: Sequence[Event], verified: Verified
) -> dict[str, float]:
    """Counts of candidates (`found`: with their trajectories) and, with a verifier, of verdicts."""
    states = [record.state for record in kept]
    counts = {
        "memory/candidates": float(len(found)),
        "memory/admitted": float(states.count("active")),
        "memory/kept_provisional": float(states.count("provisional")),
        "memory/not_admitted": float(len(rejected)),
    }
    verdicts = list(verified.verdicts.values())
    if verdicts:
        labels = [v.descriptor.label for v in verdicts]
        counts |= {
            "memory/verified": float(len(verdicts)),
            "memory/uncertain": float(sum(_uncertain(verified.verdicts.get(name)) for name, _ in found)),
            "memory/verifier_malformed": float(sum(v.malformed for v in verdicts)),
            "memory/verifier_unread_views": float(sum(v.unread for v in verdicts)),
            "memory/verified_again": sum(v.views > 1 for v in verdicts) / len(verdicts),
            "memory/label_success": labels.count("verified_success") / len(labels),
            "memory/label_fail": labels.count("verified_fail") / len(labels),
            "memory/label_uncertain": labels.count("uncertain") / len(labels),
        }
    return counts
