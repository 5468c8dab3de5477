"""`engine.name` chooses the backend and `engine.options` reach it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mh_train.config.schema import EngineConfig
from mh_train.engine.api import ApiEngine
from mh_train.engine.factory import make_engine
from mh_train.engine.scripted import ScriptedEngine, look_policy
from mh_train.engine.simulated import SimulatedEngine
from mh_train.engine.transformers import TransformersEngine

CONFIGS = Path(__file__).parents[2] / "configs" / "engine"


def test_every_engine_config_makes_its_engine(model: Any, tokenizer: Any) -> None:
    made = {
        path.stem: make_engine(EngineConfig(**yaml.safe_load(path.read_text())), model, tokenizer)
        for path in CONFIGS.glob("*.yaml")
    }
    kinds = {
        "transformers": TransformersEngine,
        "scripted": ScriptedEngine,
        "simulated": SimulatedEngine,
        "api": ApiEngine,
    }
    assert {name: type(engine) for name, engine in made.items()} == kinds


def test_settings_reach_the_engine(model: Any, tokenizer: Any) -> None:
    model.generation_config.eos_token_id = [1, 4]
    try:
        engine = make_engine(EngineConfig(max_batch=7, fixed_order=False), model, tokenizer)
    finally:
        model.generation_config.eos_token_id = 1
    assert isinstance(engine, TransformersEngine)
    assert (engine.max_batch, engine.fixed_order, engine.codec.end_ids()) == (7, False, [1, 4])
    simulated = make_engine(EngineConfig(name="simulated", options={"mean_tokens": 9.0}))
    assert isinstance(simulated, SimulatedEngine) and simulated.latency.mean_tokens == 9.0
    scripted = make_engine(EngineConfig(name="scripted", options={"policy": "mh_train.engine.scripted:look_policy"}))
    assert isinstance(scripted, ScriptedEngine) and scripted.policy is look_policy


def test_an_unknown_name() -> None:
    with pytest.raises(ValueError, match=r"engine\.name=vlm is unknown; choose transformers"):
        make_engine(EngineConfig(name="vlm"))
