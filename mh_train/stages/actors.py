"""Who is evaluated: the run's trained policy, a plain Hugging Face checkpoint, or a hosted model.

Why: published weights and closed models go through the very evaluation that a run's own policy goes through, without a
run folder to begin with. Invariant: an actor's digest names what it answers with, so that results of another policy are
never taken for its own.
Run: `mh-train eval env=alfworld model.path=FOLDER_OR_HUB_ID`, `mh-train eval mode=api engine.options.model=NAME ...`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from mh_train.agent.speaker import EngineSpeaker
from mh_train.config import ConfigError, RunConfig
from mh_train.engine.base import Engine
from mh_train.engine.factory import make_engine
from mh_train.engine.scripted import CharCodec
from mh_train.run.folder import RunFolder
from mh_train.run.progress import say
from mh_train.stages import parts

WITHOUT_MODEL = ("api", "scripted", "simulated")
CHARACTERS_PER_TOKEN = 4
"""Of English text: what a prompt limit in tokens allows where prompts are measured in characters."""


def source(config: RunConfig, folder: RunFolder) -> str:
    """Where the policy to evaluate lies: `<run>/model`, else `model.path` as it is when the run never trained.

    Empty when the engine needs no model here. Raises `ConfigError` when there is nothing to evaluate."""
    if config.engine.name in WITHOUT_MODEL:
        return ""
    if (folder.model / "config.json").is_file():
        return str(folder.model)
    started = folder.checkpoints.is_dir() or (folder.sft_model / "config.json").is_file()
    if started or config.model.path == "tiny":
        raise ConfigError(f"There is no policy in {folder.model}; run `mh-train grpo name={config.name}` first.")
    say(f"eval     {config.model.path} as it is: {folder.path} holds no trained policy")
    return config.model.path


def load_actor(config: RunConfig, path: str | Path) -> tuple[parts.Policy, str]:
    """The policy of a `source` and its digest: of a folder's files, or the name of what is not a folder."""
    if config.engine.name in WITHOUT_MODEL:
        engine = make_engine(config.engine)
        options = config.engine.options
        return _spoken(config, engine), f"{config.engine.name}:{options.get('model') or options.get('policy', '')}"
    folder = Path(path)
    return parts.policy(config, path), folder_digest(folder) if folder.is_dir() else f"hub:{path}"


def folder_digest(folder: Path) -> str:
    """SHA-256 over names and bytes of a folder's files."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _spoken(config: RunConfig, engine: Engine) -> parts.Policy:
    """A policy that is only an engine."""
    characters = isinstance(engine.codec, CharCodec)
    limit = config.env.prompt_tokens * CHARACTERS_PER_TOKEN if characters else 0
    return parts.Policy(None, None, engine, parts.make_prompts(config, engine.codec, limit), EngineSpeaker(engine))
