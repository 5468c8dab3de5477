"""Builds, from the configuration, the parts that several stages share.

Why: a stage should read as a sequence of acts, not of constructors. Invariant: nothing here decides anything that the
configuration does not say.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from envs.base import TextEnv
from envs.pool import EnvPool
from envs.registry import load as load_env
from mh_train.agent.prompts import Prompts
from mh_train.agent.speaker import EngineSpeaker, Speaker
from mh_train.config import ConfigError, RunConfig
from mh_train.config.sizes import longest_context
from mh_train.engine.base import Engine
from mh_train.engine.factory import make_engine
from mh_train.engine.load import load_model
from mh_train.engine.serving import Serving
from mh_train.learn.ranks import Ranks
from mh_train.memory.bank import Bank
from mh_train.memory.embed import Embedder
from mh_train.memory.snapshot import restore, start_from
from mh_train.run.folder import RunFolder


@dataclass
class Policy:
    """The model and everything that speaks for it."""

    model: Any
    tokenizer: Any
    engine: Engine
    prompts: Prompts
    speaker: Speaker


def settle(config: RunConfig, main: bool = True) -> RunFolder:
    """Open the run folder and fix what is global to the process: torch threads and torch's seed.

    Of several processes only the `main` one writes the folder's config and environment."""
    if config.threads:
        torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed)
    return RunFolder.open(config) if main else RunFolder(Path(config.root) / config.name)


def check_shared_folder(ranks: Ranks, folder: RunFolder, update: int) -> None:
    """Refuse ranks that see different run folders: `update` is each one's newest checkpoint."""
    seen = ranks.everyone(update)
    if len(set(seen)) > 1:
        raise ConfigError(
            f"The processes of this run see different checkpoints in {folder.path} (after updates {seen}); put root= "
            "on a file system that all nodes share."
        )


def environment(config: RunConfig) -> type[TextEnv]:
    """The class of the run's environment."""
    return load_env(config.env.name)


def pool(config: RunConfig) -> EnvPool:
    """The pool that plays the run's environment."""
    env = config.env
    return EnvPool(env.name, env.options, env.workers, env.timeout_s)


def start_policy(config: RunConfig, folder: RunFolder) -> str:
    """Where training starts: the run's own cold start when there is one, else `model.path`."""
    if (folder.sft_model / "config.json").is_file():
        return str(folder.sft_model)
    if config.model.path == "tiny":
        raise ConfigError(
            f"model=tiny knows nothing yet: run `mh-train sft name={config.name} ...` first, or mh-train run."
        )
    return config.model.path


def policy(config: RunConfig, path: str | Path) -> Policy:
    """Load the model at `path` and give it an engine, prompts and a voice."""
    model, tokenizer = load_model(config.model, path)
    context = min(longest_context(config), model.config.max_position_embeddings)
    serving = Serving(str(path), context, config.model.dtype, config.model.lora, config.seed)
    engine = make_engine(config.engine, model, tokenizer, serving)
    made = make_prompts(config, engine.codec)
    return Policy(model, tokenizer, engine, made, EngineSpeaker(engine))


def make_prompts(config: RunConfig, codec: Any, limit: int = 0) -> Prompts:
    """The run's prompts over a codec; `limit` replaces `env.prompt_tokens` (0: it does not)."""
    limit = limit or config.env.prompt_tokens
    return Prompts(config.prompt.preset, codec, limit, config.env.history, config.prompt.self_reasoning)


def open_bank(config: RunConfig, folder: RunFolder, snapshot: Path | None, embedder: Embedder | None) -> Bank | None:
    """The run's bank: that of a checkpoint's snapshot, or a new one (filled from `memory.start_from` when given).

    None when the run uses no memory (`embedder` is None)."""
    memory = config.memory
    if embedder is None:
        return None
    if snapshot is not None:
        return restore(snapshot, memory, embedder, folder.bank, config.name)
    bank = Bank(memory, embedder, folder.bank, config.name, keep=0)  # forget an attempt without a checkpoint
    if memory.start_from:
        start_from(Path(memory.start_from), bank)
    return bank
