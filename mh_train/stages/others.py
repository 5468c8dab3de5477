"""The models beside the policy: an external reconstructor (`memory.reconstructor`) and another verifier
(`memory.verifier.engine`).

Why: either may be a hosted model, somebody's `vllm serve`, or a folder; to the rest it is one more speaker or judge.
Invariant: nothing that another model writes is ever trained on.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from mh_train.agent.speaker import EngineSpeaker
from mh_train.config import RunConfig
from mh_train.config.schema import EngineConfig, Judging, ModelConfig
from mh_train.engine.base import Engine
from mh_train.engine.factory import make_engine
from mh_train.engine.load import load_model, load_tokenizer
from mh_train.memory.judge import EngineJudge, Judge


def external_speaker(config: RunConfig, engine: Engine) -> EngineSpeaker:
    """The policy behind `engine` with its reconstruct turns answered by `memory.reconstructor`.

    Episodes come to it one by one, so it cannot wait for a full batch: with `fixed_order` a local model completes one
    prompt at a time, which repeats bit for bit too.
    """
    other = config.memory.reconstructor
    how = other.engine
    if how.fixed_order:
        how = replace(how, fixed_order=False, max_batch=1)
    return EngineSpeaker(engine, {"reconstruct": _engine(how, other.model_path, config.model)})


def other_judge(config: RunConfig) -> Judge | None:
    """The judge of `memory.verifier.source=engine`; None for every other source (`curate` finds those itself)."""
    verifier = config.memory.verifier
    if verifier.source is not Judging.engine:
        return None
    engine = _engine(verifier.engine, verifier.model_path, config.model)
    return EngineJudge(EngineSpeaker(engine), engine)


def _engine(config: EngineConfig, path: str, like: ModelConfig) -> Engine:
    """An engine over the model at `path`, in the policy's dtype; servers and scripts need no model."""
    if config.name != "transformers":
        return make_engine(config, tokenizer=load_tokenizer(path) if path else None)
    model, tokenizer = load_model(replace(like, gradient_checkpointing=False), path)
    return make_engine(config, model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer)
