"""Compose a run's configuration from `configs/` and command-line overrides, typed and checked.

Why: the launcher composes once; every rank and every resumed job then loads the resolved YAML. A typo, a wrong type
or an impossible combination fails here, in under two seconds, with a sentence that names the key.
Invariant: `load(path written by to_yaml(c)) == c`.
Run: `mh-train grpo experiment=quickstart --dry-run`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import cast

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from mh_train.config import schema
from mh_train.config.schema import RunConfig
from mh_train.config.validate import validate


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the key and says what to do."""


def config_dir() -> Path:
    """The folder of YAML files: `configs/` of the repository, or the copy inside the installed package."""
    here = Path(__file__).resolve().parents[1]
    inside, beside = here / "configs", here.parent / "configs"
    return inside if inside.is_dir() else beside


def compose(overrides: Sequence[str] = ()) -> RunConfig:
    """Overrides such as `experiment=quickstart learn.lr=1e-4` -> a validated `RunConfig`.

    Raises `ConfigError` for an unknown key, a wrong type, a missing value or an impossible combination.
    """
    ConfigStore.instance().store(name="base_config", node=RunConfig)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(config_dir()), version_base="1.3"):
            raw = hydra_compose("config", overrides=list(overrides))
        config = cast(RunConfig, OmegaConf.to_object(raw))
    except (HydraException, ConfigCompositionException, OmegaConfBaseException) as error:
        raise ConfigError(_sentence(error)) from error
    return _checked(config)


def load(path: str | os.PathLike[str]) -> RunConfig:
    """Read a resolved YAML file written by `to_yaml`. Raises `ConfigError` when it does not fit the schema."""
    try:
        raw = OmegaConf.merge(OmegaConf.structured(RunConfig), OmegaConf.load(str(path)))
        return _checked(cast(RunConfig, OmegaConf.to_object(raw)))
    except (OmegaConfBaseException, OSError) as error:
        raise ConfigError(f"{path}: {_sentence(error)}") from error


def to_yaml(config: RunConfig) -> str:
    """The resolved configuration as YAML."""
    return OmegaConf.to_yaml(OmegaConf.structured(config))


def expand_sweep(overrides: Sequence[str]) -> list[list[str]]:
    """`seed=0,1 learn.lr=1e-6` -> one override list per job of a multi-run (`-m`), in Hydra's order.

    `sweep=NAME` stands for the words of `configs/sweep/NAME.yaml`; words beside it are added to every job. Raises
    `ConfigError` for an unknown recipe."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    words = [word for given in overrides for word in _recipe(given)]
    parsed = OverridesParser.create().parse_overrides(words)
    batches = BasicSweeper.split_arguments(parsed, max_batch_size=None)
    return [list(job) for batch in batches for job in batch]


def _recipe(word: str) -> list[str]:
    key, _, name = word.partition("=")
    if key != "sweep":
        return [word]
    file = config_dir() / "sweep" / f"{name}.yaml"
    if not file.is_file():
        known = ", ".join(sorted(path.stem for path in file.parent.glob("*.yaml")))
        raise ConfigError(f"sweep={name} is unknown; choose one of {known}.")
    return cast(list[str], OmegaConf.to_object(OmegaConf.load(file)))


def _checked(config: RunConfig) -> RunConfig:
    problems = validate(config)
    if problems:
        raise ConfigError("\n".join(problems))
    return config


def _hint(text: str, key: str) -> str:
    """What was probably meant, for the slips that are made every day; empty for other messages."""
    if found := re.search(r"Could not find '(\w+)/(\w+)'", text):
        group, name = found.groups()
        return f"{group}={name} is unknown{_meant(name, sorted(p.stem for p in (config_dir() / group).glob('*.yaml')))}"
    if found := re.search(r"[Ee]rror parsing override '([^'=]*)'", text):
        return f"'{found[1]}' is no setting: write key=value."
    if found := re.search(r"Key '(\w+)' (?:not in '(\w+)'|is not in struct)", text):
        known = [field.name for field in fields(getattr(schema, found[2] or "RunConfig", RunConfig))]
        return f"there is no such setting{_meant(found[1], known)}" if key and ".options." not in key else ""
    return ""


def _meant(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}."


def _sentence(error: BaseException) -> str:
    """Hydra's and OmegaConf's many-line messages as one sentence that starts with the key."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    keys = [line.split(":", 1)[1].strip() for line in lines if line.startswith("full_key:")]
    cause = error.__cause__
    if not keys and cause is not None and "full_key:" in str(cause):
        return _sentence(cause)
    text = re.sub(r"\s+", " ", lines[0] if lines else type(error).__name__)
    text = _hint(text, keys[0] if keys else "") or text
    if keys and ".options." in keys[0]:
        text += f"; options are open, but new ones need a plus: '+{keys[0].rpartition('.')[0]}={{name: value}}'"
    return f"{keys[0]}: {text}" if keys else text
