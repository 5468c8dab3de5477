"""`engine.name` -> a running engine.

Why: stages ask for an engine by its configuration and never import a backend.
"""

from __future__ import annotations

import importlib
from typing import Any

from mh_train.config.schema import EngineConfig
from mh_train.engine.base import Engine
from mh_train.engine.serving import Serving
from mh_train.plugins import load_named


def make_engine(
    config: EngineConfig, model: Any = None, tokenizer: Any = None, serving: Serving | None = None
) -> Engine:
    """The engine that `config.name` names.

    `transformers` needs `model` and `tokenizer`; `api` the options of `ApiEngine`, and the tokenizer for its endpoint
    "completions"; `scripted` the option `policy` ("module:function"); `simulated` the fields of `Latency`.
    "module:Class" is a class of yours, made with (config, model, tokenizer). Raises `ValueError` for another name.
    """
    if ":" in config.name:
        engine: Engine = load_named(config.name, "engine.name")(config, model, tokenizer)
        return engine
    options = dict(config.options)
    match config.name:
        case "transformers":
            from mh_train.engine.codec import HFCodec
            from mh_train.engine.load import end_ids
            from mh_train.engine.transformers import TransformersEngine

            codec = HFCodec(tokenizer, end_ids(model))
            engine = TransformersEngine(model, codec, config.max_batch, config.fixed_order, **options)
        case "scripted":
            from mh_train.engine.scripted import ScriptedEngine

            module, _, function = options.pop("policy", "mh_train.engine.scripted:adversarial_policy").partition(":")
            engine = ScriptedEngine(getattr(importlib.import_module(module), function), **options)
        case "simulated":
            from mh_train.engine.simulated import Latency, SimulatedEngine

            engine = SimulatedEngine(Latency(**options))
        case "api":
            from mh_train.engine.api import ApiEngine
            from mh_train.engine.codec import HFCodec

            engine = ApiEngine(codec=None if tokenizer is None else HFCodec(tokenizer), **options)
        case "vllm" | "vllm_server":
            from mh_train.engine.codec import HFCodec
            from mh_train.engine.load import end_ids
            from mh_train.engine.vllm import VllmEngine
            from mh_train.engine.vllm_server import VllmServerEngine

            if serving is None:
                raise ValueError(
                    f"engine.name={config.name} generates for the policy; choose transformers or api here."
                )
            kind = VllmEngine if config.name == "vllm" else VllmServerEngine
            engine = kind(serving, HFCodec(tokenizer, end_ids(model)), config.max_batch, **options)
        case _:
            raise ValueError(
                f"engine.name={config.name} is unknown; choose transformers, vllm, vllm_server, scripted, simulated "
                "or api."
            )
    return engine
