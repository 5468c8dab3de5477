"""A command meets a run folder that is in use already: by another process, or from earlier with other settings.

Why: two processes that write one run destroy it, and a setting that a finished stage ignores misleads. Invariants: one
process at a time works in a folder; whoever changes what shapes results is told so.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from mh_train.config import ConfigError, RunConfig

log = logging.getLogger(__name__)
FREE = (
    "name",
    "root",
    "threads",
    "data",
    "evaluate",
    "stream",
    "track",
    "launcher",
    "learn.updates",
    "learn.checkpoint",
)
"""Settings that may be others for the next command on a run without a word."""


@contextmanager
def alone(config: RunConfig) -> Iterator[None]:
    """Keep every other process out of the run folder meanwhile. Of several processes of one run rank 0 speaks for all.

    Raises `ConfigError` when another process has the folder, or it cannot be written."""
    if os.environ.get("RANK", "0") != "0":
        yield
        return
    folder = Path(config.root) / config.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / ".lock", "ab")  # noqa: SIM115 - closed below
    except OSError as error:
        raise ConfigError(
            f"The run folder {folder} cannot be written ({error}); set root= to another place."
        ) from error
    with file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a record lock: child processes do not inherit it
        except (BlockingIOError, PermissionError) as error:
            raise ConfigError(
                f"Another process works in {folder}; wait for it, or set name= to another run."
            ) from error
        except OSError as error:
            log.warning("%s: this file system cannot lock (%s); let one process at a time work there.", folder, error)
        yield


def differences(file: Path, config: Mapping[str, Any]) -> list[str]:
    """`key old -> new` of all settings that shape results and are not what the config file on disk says."""
    try:
        before = _flat(yaml.safe_load(file.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError):
        return []  # a new run, or one whose file will now be whole again
    now = _flat(config)
    keys = [key for key in now if key in before and before[key] != now[key]]
    return [
        f"{key} {before[key]} -> {now[key]}" for key in keys if not any(f"{key}.".startswith(f"{f}.") for f in FREE)
    ]


def _flat(value: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= _flat(item, f"{path}{key}.") if isinstance(item, Mapping) else {f"{path}{key}": item}
    return flat
