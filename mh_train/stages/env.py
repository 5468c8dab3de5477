"""Hold an environment to the contract of `envs.base`.

Run: `mh-train env check toy`, `mh-train env check alfworld data=data/mini_alfworld`, `mh-train env list`.
"""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from envs.check import check_env
from envs.registry import names
from mh_train.config import ConfigError


def main(words: Sequence[str]) -> int:
    """`list`, or `check NAME [option=value ...]`; 0 when every rule holds, 1 otherwise."""
    if list(words) == ["list"]:
        print("\n".join(names()))
        return 0
    if len(words) < 2 or words[0] != "check":
        raise ConfigError("usage: mh-train env list | mh-train env check NAME [option=value ...]")
    options = dict(_option(word) for word in words[2:])
    split = str(options.pop("split")) if "split" in options else None
    report = check_env(words[1], options, split=split)
    print(report)
    return 0 if report.ok else 1


def _option(word: str) -> tuple[str, object]:
    key, separator, value = word.partition("=")
    if not separator:
        raise ConfigError(f"'{word}' is not option=value.")
    return key, yaml.safe_load(value)
