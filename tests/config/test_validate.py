"""Settings that cannot work are refused before anything is loaded, each with a sentence that names its key."""

import copy
from enum import Enum

import pytest
import yaml

from mh_train.config import compose
from mh_train.config.ranges import KNOWN, NOT_NEGATIVE, POSITIVE, SHARES, lookup, out_of_range
from mh_train.config.schema import RunConfig
from mh_train.config.validate import MODES, validate
from mh_train.evaluate import modes
from mh_train.memory.judge_prompts import CRITERIA

SERVER = "{url: http://localhost:1/v1, model: m}"
COMPLETIONS = "{url: http://localhost:1/v1, model: m, endpoint: completions}"


FITTING = compose(["memory=memharness", "env=toy", "model=tiny", "learn.minibatch_turns=8"])


def fitting(*settings: str) -> RunConfig:
    """A config that can run, with `key=value` settings put in; values are YAML."""
    config = copy.deepcopy(FITTING)
    for setting in settings:
        key, _, text = setting.partition("=")
        *path, name = key.split(".")
        room = lookup(config, ".".join(path)) if path else config
        before, value = getattr(room, name), yaml.safe_load(text)
        setattr(room, name, type(before)(value) if isinstance(before, Enum) else value)
    return config


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (POSITIVE, 0),
        (NOT_NEGATIVE, -1),
        (SHARES, 1.01),
        (SHARES, -0.01),
        (" ".join(KNOWN), "x"),
    ],
)
def test_every_key_of_a_table_is_held_to_its_range(keys, value):
    for key in keys.split():
        told = out_of_range(fitting(f"{key}={value}"))
        assert any(sentence.startswith(f"{key}=") for sentence in told), key


def test_numbers_that_are_not_finite_are_told_wherever_they_are():
    told = " ".join(validate(fitting("learn.kl=.nan", "memory.scoring.positive=[1.0, 0.0, .inf, 0.0, 0.0]")))
    assert "learn.kl=nan is not a finite number" in told
    assert "memory.scoring.positive=inf is not a finite number" in told


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ("rollout.top_p=0.9", "rollout.top_p"),
        ("rollout.top_k=5", "rollout.top_k"),
        ("learn.minibatch_turns=1000000", "learn.minibatch_turns"),
        ("learn.token_budget=10", "learn.token_budget"),
        ("memory.use=none", "memory.trigger"),
        ("memory.trigger='off'", "memory.trigger"),
        ("memory.write=false", "memory.write"),
        ("memory.dedup.pool=1", "memory.dedup.pool"),
        ("memory.milvus.uri=server", "memory.milvus.uri"),
        ("evaluate.panels=[]", "evaluate.panels"),
        ("model.tiny.context=64", "model.tiny.context"),
        ("memory.verifier.scale=1", "memory.verifier.scale"),
        ("memory.verifier.scale=100", "memory.verifier.scale"),
        ("memory.verifier.views=4", "memory.verifier.views"),
        ("memory.verifier.weights=[1,1,1]", "memory.verifier.weights"),
        ("memory.verifier.weights=[1,1,1,-1]", "memory.verifier.weights"),
        ("memory.verifier.weights=[0,0,0,0]", "memory.verifier.weights"),
        ("memory.verifier.low=0.7", "memory.verifier.low"),
        ("memory.scoring.positive=[1,1]", "memory.scoring.positive"),
        ("memory.scoring.positive=[0,0,0,0,0]", "memory.scoring.positive"),
        ("memory.scoring.risk=[1]", "memory.scoring.risk"),
        ("memory.scoring.risk=[1,1,-1]", "memory.scoring.risk"),
        ("memory.scoring.guard=[1,1]", "memory.scoring.guard"),
        ("memory.scoring.guard_risk=[1,1,1,1]", "memory.scoring.guard_risk"),
        ("memory.scoring.enabled=true  memory.scoring.pool=2", "memory.scoring.pool"),
        ("memory.admission.reject_below=0.8", "memory.admission.reject_below"),
        ("memory.admission.enabled=true", "memory.verifier.source"),
        ("memory.noise=0.1", "memory.verifier.source"),
        ("memory.outcome=verifier", "memory.verifier.source"),
        ("memory.prune.reward_prior=true", "memory.verifier.source"),
        ("memory.writer=induce", "memory.verifier.source"),
        ("memory.writer=induce  memory.verifier.source=runtime_status", "memory.verifier.source"),
        ("memory.lifecycle.summarise_from=1", "memory.lifecycle.summarise_from"),
        ("memory.embedder.name=sentence_transformers", "memory.embedder.path"),
        ("memory.milvus.collection=my-bank", "memory.milvus.collection"),
        ("memory.verifier.source=engine", "memory.verifier.engine.options"),
        ("memory.verifier.source=engine  memory.verifier.engine.name=transformers", "memory.verifier.model_path"),
        ("memory.use=external", "memory.reconstructor.engine.options"),
        ("evaluate.modes=[external]", "memory.reconstructor.engine.options"),
        (f"memory.use=external  memory.reconstructor.engine.options={COMPLETIONS}", "memory.reconstructor.model_path"),
        ("learn.betas=[0.9]", "learn.betas"),
        ("learn.betas=[0.9,1.0]", "learn.betas"),
        ("learn.clip_low=1.5", "learn.clip_low"),
        ("learn.dual_clip=0.5", "learn.dual_clip"),
        ("learn.estimator_function=mine", "learn.estimator_function"),
        ("learn.checkpoint.select=best", "evaluate.every"),
        ("rollout.group=1", "rollout.group"),
        ("rollout.group=1  rollout.tasks=1  learn.estimator=reinforce_pp", "rollout.tasks"),
        ("rollout.group=1  learn.estimator=reinforce_pp  learn.flat_groups=drop", "learn.flat_groups"),
        ("reward.min_retrievals=3  memory.max_retrievals=2", "reward.min_retrievals"),
        ("model.dtype=float16", "model.dtype"),
        ("model.tiny.hidden=100", "model.tiny.hidden"),
        ("model.lora.enabled=true  model.lora.target_modules=[]", "model.lora.target_modules"),
        ("data.maker=nothing", "data.maker"),
        ("name=../elsewhere", "name="),
        ("name=''", "name="),
        ("evaluate.modes=[memory,magic]", "magic"),
        ("evaluate.modes=[]", "evaluate.modes"),
        ("evaluate.modes=[memory,memory]", "evaluate.modes"),
        ("evaluate.panels=[test,test]", "evaluate.panels"),
        ("evaluate.seeds=[0,0]", "evaluate.seeds"),
        ("evaluate.every=5  evaluate.every_panel=''", "evaluate.every_panel"),
        ("evaluate.every=5  rollout.max_staleness=1", "rollout.max_staleness=0"),
        ("evaluate.every=5  learn.checkpoint.select=best  evaluate.panels=[valid_seen]", "evaluate.every_panel"),
    ],
)
def test_impossible_combinations_name_their_key(settings: str, key: str):
    assert any(key in sentence for sentence in validate(fitting(*settings.split("  "))))


@pytest.mark.parametrize(
    "settings",
    [
        f"memory.use=external  memory.reconstructor.engine.options={SERVER}",
        "memory.use=external  memory.reconstructor.engine.name=transformers  memory.reconstructor.model_path=m",
        "memory.verifier.source=engine  memory.verifier.engine.name=scripted  memory.outcome=verifier",
        "memory.verifier.source=policy  memory.noise=0.2  memory.admission.enabled=true",
        "rollout.group=1  learn.estimator=reinforce_pp",
        "memory.use=none  memory.trigger='off'  memory.verifier.weights=[]",
        "evaluate.every=4  learn.checkpoint.select=best  evaluate.panels=[valid_unseen]",
    ],
)
def test_what_can_work_is_let_through(settings: str):
    assert validate(fitting(*settings.split("  "))) == []


def test_names_that_live_elsewhere_are_the_same_there():
    assert set(MODES) == set(modes.MODES)
    assert len(fitting().memory.verifier.weights) == len(CRITERIA)
