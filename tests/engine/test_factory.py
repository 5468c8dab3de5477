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
from mh_train.engine.serving import Serving
from mh_train.engine.simulated import SimulatedEngine
from mh_train.engine.transformers import TransformersEngine
from mh_train.engine.vllm import VllmEngine
from mh_train.engine.vllm_server import VllmServerEngine

CONFIGS = Path(__file__).parents[2] / "configs" / "engine"


def test_every_engine_config_makes_its_engine(model: Any, tokenizer: Any) -> None:
    made = {
        path.stem: make_engine(EngineConfig(**yaml.safe_load(path.read_text())), model, tokenizer, Serving("", 64))
        for path in CONFIGS.glob("*.yaml")
    }
    kinds = {
        "transformers": TransformersEngine,
        "scripted": ScriptedEngine,
        "simulated": SimulatedEngine,
        "api": ApiEngine,
        "vllm": VllmEngine,
        "vllm_server": VllmServerEngine,
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


class Named(ScriptedEngine):
    """An engine as a package of somebody else would bring it."""

    def __init__(self, config: EngineConfig, model: Any, tokenizer: Any) -> None:
        super().__init__(look_policy)
        self.given = (config, model, tokenizer)


def test_an_engine_of_ones_own_is_a_class_by_name(model: Any, tokenizer: Any) -> None:
    config = EngineConfig(name=f"{__name__}:Named")
    engine = make_engine(config, model, tokenizer)
    assert isinstance(engine, Named) and engine.given == (config, model, tokenizer)
    with pytest.raises(ValueError, match=r"engine\.name=nowhere:Engine cannot be imported"):
        make_engine(EngineConfig(name="nowhere:Engine"))
