"""Metrics: one JSON line per update in `metrics.jsonl`, and the same numbers to the trackers that the config names.

Why: the file is the truth, trackers are mirrors; a resumed run cuts the file back to its checkpoint, so every update
appears exactly once. Names are grouped (`reward/ env/ memory/ learn/ time/ eval/`); `docs/metrics.md` explains each.
"""

from __future__ import annotations

import json
import logging
import math
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from mh_train.config import RunConfig, to_yaml
from mh_train.extras import install
from mh_train.files import write_atomic, write_json
from mh_train.run.folder import RunFolder

log = logging.getLogger(__name__)


class Tracker(Protocol):
    """A mirror of the metrics."""

    def log(self, update: int, values: Mapping[str, float]) -> None:
        """Record the values of one update."""

    def close(self) -> None:
        """Flush and end."""


class Metrics:
    """Writes `metrics.jsonl` and feeds the trackers. `run_id` names the run at a tracker and survives a resume."""

    def __init__(self, folder: RunFolder, config: RunConfig, run_id: str = "") -> None:
        self.path = folder.metrics
        self.run_id = run_id or _kept_id(folder)
        self.trackers = make_trackers(folder, config, self.run_id)

    def log(self, update: int, values: Mapping[str, float]) -> None:
        """Append one line `{"update": n, name: value, ...}`; values that are not finite are written as null."""
        line = {name: _plain(value) for name, value in sorted(values.items())}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"update": update, **line}) + "\n")
        for tracker in self.trackers:
            tracker.log(update, values)

    def rewind(self, update: int) -> None:
        """Forget every line after `update`: the state a resumed run continues from."""
        kept = [row for row in read_metrics(self.path) if row["update"] <= update]
        write_atomic(self.path, "".join(json.dumps(row) + "\n" for row in kept))

    def close(self) -> None:
        """End the trackers."""
        for tracker in self.trackers:
            tracker.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All complete lines of a metrics file; others, such as one cut off by a crash, are left out and logged."""
    rows: list[dict[str, Any]] = []
    if not path.is_file():
        return rows
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            row = None
        if isinstance(row, dict) and isinstance(row.get("update"), int):
            rows.append(row)
        else:
            log.warning("%s line %d is not the numbers of an update; it is left out.", path, number)
    return rows


def make_trackers(folder: RunFolder, config: RunConfig, run_id: str) -> list[Tracker]:
    """The trackers that `track` asks for. Raises `RuntimeError` naming the package to install when one is missing."""
    chosen: list[Tracker] = []
    try:
        if config.track.wandb:
            chosen.append(WandbTracker(folder, config, run_id))
        if config.track.tensorboard:
            chosen.append(TensorboardTracker(folder))
    except ImportError as error:
        raise RuntimeError(f"A tracker is switched on but not installed ({error}): {install('track')}.") from error
    return chosen


class WandbTracker:
    """Weights & Biases; offline unless somebody is logged in, so that a run never waits for a prompt."""

    def __init__(self, folder: RunFolder, config: RunConfig, run_id: str) -> None:
        import wandb
        import yaml

        self.run = wandb.init(
            project=config.track.wandb_project,
            name=config.name,
            id=run_id,
            resume="allow",
            mode="online" if wandb.api.api_key else "offline",
            dir=str(folder.path),
            config=yaml.safe_load(to_yaml(config)),
        )

    def log(self, update: int, values: Mapping[str, float]) -> None:
        """Record the values of one update."""
        self.run.log(dict(values), step=update)

    def close(self) -> None:
        """Flush and end."""
        self.run.finish()


class TensorboardTracker:
    """TensorBoard event files in `<run>/tensorboard`."""

    def __init__(self, folder: RunFolder) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder.path / "tensorboard"))

    def log(self, update: int, values: Mapping[str, float]) -> None:
        """Record the values of one update."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, update)

    def close(self) -> None:
        """Flush and end."""
        self.writer.close()


def _kept_id(folder: RunFolder) -> str:
    """A new id on a run's first start, the same one ever after, whether there is a checkpoint yet or not."""
    path = folder.path / "tracker.json"
    if not path.is_file():
        write_json(path, {"run_id": uuid.uuid4().hex[:12]})
    return str(json.loads(path.read_text(encoding="utf-8"))["run_id"])


def _plain(value: float) -> float | int | None:
    if isinstance(value, int):
        return value
    number = float(value)
    return number if math.isfinite(number) else None
