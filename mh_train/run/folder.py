"""One run, one folder: `config.yaml`, `env.json`, `metrics.jsonl`, `trajectories/`, `bank/`, `checkpoints/`, `eval/`,
`model/`.

Why: trackers, reports, evaluation and a resumed job all read the same files. Invariant: nothing in a run folder is ever
half written, and a resumed run continues the folder it finds.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

import yaml

from mh_train import __version__
from mh_train.config import ConfigError, RunConfig, load, to_yaml
from mh_train.files import write_atomic, write_json
from mh_train.run.progress import say
from mh_train.run.reuse import differences

PACKAGES = (
    "torch transformers accelerate peft trl numpy pymilvus milvus-lite textworld alfworld vllm hydra-core wordllama "
    "FlagEmbedding sentence-transformers"
)


class RunFolder:
    """Paths of a run. `open` makes the folder, writes the resolved config and the software environment."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.yaml"
        self.metrics = self.path / "metrics.jsonl"
        self.trajectories = self.path / "trajectories"
        self.bank = self.path / "bank"
        self.checkpoints = self.path / "checkpoints"
        self.evaluation = self.path / "eval"
        self.sft_data = self.path / "sft" / "rows.jsonl"
        self.sft_model = self.path / "sft" / "model"
        self.base_model = self.path / "base_model"
        self.model = self.path / "model"

    @classmethod
    def open(cls, config: RunConfig) -> RunFolder:
        """Make or reopen `<root>/<name>`. The last config given is the one on record; versions are recorded with it.

        Says which settings are others than before: stages that are finished are not done again for them."""
        folder = cls(Path(config.root) / config.name)
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            changed = differences(folder.config_file, yaml.safe_load(to_yaml(config)))
            write_atomic(folder.config_file, to_yaml(config))
        except OSError as error:
            raise ConfigError(
                f"The run folder {folder.path} cannot be written ({error}); set root= to another place."
            ) from error
        write_json(folder.path / "env.json", environment())
        if changed:
            told = "; ".join([*changed[:8], *(["..."] if changed[8:] else [])])
            say(
                f"config   {folder.path} had other settings: {told}. What is finished there stays as it was made; "
                "name=NAME begins a run of its own."
            )
        return folder

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> tuple[RunFolder, RunConfig]:
        """An existing run and its configuration. Raises `ConfigError` when it is not a run folder."""
        folder = cls(path)
        if not folder.config_file.is_file():
            raise ConfigError(f"{folder.path} is not a run folder: it has no config.yaml.")
        return folder, load(folder.config_file)


def versions() -> dict[str, str]:
    """Versions of this package, Python and the libraries that shape results; absent ones are left out."""
    found = {"mh_train": __version__, "python": platform.python_version()}
    for name in PACKAGES.split():
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def environment() -> dict[str, object]:
    """What a run ran on: versions, platform, cores, command line. No secrets: environment variables are not read."""
    return {
        "versions": versions(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }
