"""Combinations of the bank's settings that cannot work: use and trigger, verifier, admission, retrieval, the mirror.

Why: governance has many switches, and a run that silently admits nothing, or scores with a missing weight, looks like
one that works. Invariant: as in `validate.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mh_train.config.schema import EngineConfig, Judging, MemoryConfig, Outcome, RunConfig, Trigger, Use, Writer

CRITERIA = 4
"""Of the verifier: task completion, evidence, execution, generalizability."""
MOST_VIEWS = 3
"""Full, evidence, risk."""


def memory_problems(config: RunConfig) -> Iterator[str]:
    """What is wrong with `memory`, one sentence each; a run without memory has only its use and trigger checked."""
    memory = config.memory
    yield from _use(memory)
    if memory.use is Use.external or "external" in config.evaluate.modes:
        other = memory.reconstructor
        yield from _reachable("memory.reconstructor", other.engine, other.model_path, "an external reconstructor")
    if memory.use is Use.none:
        return
    yield from _verifier(memory)
    yield from _governance(memory)
    yield from _retrieval(memory)
    if memory.only_same_task and memory.exclude_same_task:
        yield "memory.only_same_task with memory.exclude_same_task hides every record in training; switch one off."
    uri = memory.milvus.uri
    if uri and "://" not in uri:
        yield "memory.milvus.uri must be a server address such as http://host:19530; leave it empty for Milvus Lite."
    if not re.fullmatch(r"[A-Za-z_]\w{0,254}", memory.milvus.collection, re.ASCII):
        yield f"memory.milvus.collection={memory.milvus.collection!r} must be letters, digits and _, no digit first."


def _use(memory: MemoryConfig) -> Iterator[str]:
    if memory.use is Use.none and memory.trigger is not Trigger.off:
        yield "memory.use=none needs memory.trigger=off: a policy without memory must not be offered retrieval."
    if memory.use is not Use.none and memory.trigger is Trigger.off:
        yield f"memory.trigger=off never retrieves, so memory.use={memory.use.value} is idle; set memory.use=none."
    if memory.use is not Use.none and not memory.write and not memory.start_from:
        yield "memory.write=false with no memory.start_from leaves the bank empty for ever; give a snapshot folder."
    if memory.embedder.name == "sentence_transformers" and not memory.embedder.path:
        yield "memory.embedder.path is not set; sentence_transformers needs a folder or hub id."


def _verifier(memory: MemoryConfig) -> Iterator[str]:
    verifier, source = memory.verifier, memory.verifier.source
    if not 2 <= verifier.scale <= 99:
        yield f"memory.verifier.scale={verifier.scale} must lie between 2 and 99: scores are 1 to scale."
    if verifier.views > MOST_VIEWS:
        yield f"memory.verifier.views={verifier.views} is more than the {MOST_VIEWS} views there are."
    yield from _weights("memory.verifier.weights", verifier.weights, CRITERIA)
    if verifier.low > verifier.high:
        yield f"memory.verifier.low={verifier.low} is above memory.verifier.high={verifier.high}; the band is empty."
    if source is Judging.engine:
        yield from _reachable("memory.verifier", verifier.engine, verifier.model_path, "memory.verifier.source=engine")
    if source is Judging.off:
        for setting in ("memory.outcome=verifier", "memory.noise", "memory.prune.reward_prior", "memory.admission"):
            if _needs_verdicts(memory)[setting]:
                yield f"{setting} needs verdicts: set memory.verifier.source (off gives none)."
    if memory.writer is Writer.induce and source not in (Judging.policy, Judging.engine):
        yield (
            "memory.writer=induce needs a model that can be asked: set memory.verifier.source to policy or engine, not "
            f"{source.value}."
        )


def _needs_verdicts(memory: MemoryConfig) -> dict[str, bool]:
    """Settings that mean nothing without a verifier, and whether they are set."""
    return {
        "memory.outcome=verifier": memory.outcome is Outcome.verifier,
        "memory.noise": memory.noise > 0,
        "memory.prune.reward_prior": memory.prune.reward_prior,
        "memory.admission": memory.admission.enabled,
    }


def _governance(memory: MemoryConfig) -> Iterator[str]:
    admission = memory.admission
    if admission.reject_below > admission.reward:
        yield (
            f"memory.admission.reject_below={admission.reject_below} is above memory.admission.reward="
            f"{admission.reward}: what is to be active would be rejected."
        )
    if memory.lifecycle.summarise_from < 2:
        yield "memory.lifecycle.summarise_from must be at least 2: one memory is its own summary."
    scoring = memory.scoring
    yield from _weights("memory.scoring.positive", scoring.positive, 5)
    yield from _weights("memory.scoring.risk", scoring.risk, 3, may_vanish=True)
    yield from _weights("memory.scoring.guard", scoring.guard, 3)
    yield from _weights("memory.scoring.guard_risk", scoring.guard_risk, 3, may_vanish=True)


def _weights(key: str, values: list[float], length: int, may_vanish: bool = False) -> Iterator[str]:
    if len(values) != length:
        yield f"{key} holds {len(values)} numbers; it needs {length}."
    elif min(values) < 0 or not (may_vanish or sum(values) > 0):
        yield f"{key}={values} must not be negative{'' if may_vanish else ', and not all 0'}."


def _retrieval(memory: MemoryConfig) -> Iterator[str]:
    scored = memory.scoring.enabled
    pool = memory.scoring.pool if scored else memory.dedup.pool
    if pool < memory.k:
        name = "memory.scoring.pool" if scored else "memory.dedup.pool"
        yield f"{name}={pool} must be at least memory.k={memory.k}: hits are cut from that pool."


def _reachable(key: str, engine: EngineConfig, model_path: str, why: str) -> Iterator[str]:
    """An engine beside the policy's must be told its server or its model."""
    options = engine.options
    if engine.name == "api" and not (options.get("url") and options.get("model")):
        yield (
            f"{key}.engine.options needs url and model for {why}, for example "
            f"'+{key}.engine.options={{url: http://localhost:8000/v1, model: NAME}}'."
        )
    if engine.name == "api" and options.get("endpoint") == "completions" and not model_path:
        yield f"{key}.model_path is not set; endpoint=completions needs the tokenizer of the served model."
    if engine.name == "transformers" and not model_path:
        yield f"{key}.model_path is not set; {why} with engine.name=transformers needs a folder or hub id."
