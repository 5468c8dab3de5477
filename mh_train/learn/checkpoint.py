"""Checkpoints that hold the whole run: learner, random states, and whatever the caller adds (DESIGN decision 9).

    checkpoints/update-000040/  learner.pt  random-0.pt  state.json  <folders of the caller: bank/ ...>  manifest.json

Why: a run killed anywhere continues as if nothing had happened. Invariants: a folder with a plain name is complete (it
is written under a dotted name, fsynced, renamed, and never changed); its manifest lists every file with its sha256; a
failed save leaves all finished checkpoints as they were.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mh_train.config.schema import CheckpointConfig
from mh_train.files import fsync_folder, write_json
from mh_train.learn.learner import Learner
from mh_train.learn.randomness import random_states, set_random_states

log = logging.getLogger(__name__)
Writer = Callable[[Path], object]


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written or read; the message says which one, why, and what to do."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete, verified checkpoint: its folder, the update after which it was taken, the caller's state.

    `skipped` holds one sentence per newer checkpoint that was damaged."""

    path: Path
    update: int
    state: dict[str, Any]
    skipped: tuple[str, ...] = ()


def save(
    folder: Path,
    update: int,
    learner: Learner,
    state: Mapping[str, Any],
    config: CheckpointConfig,
    writers: Mapping[str, Writer] | None = None,
    pinned: Collection[int] = (),
) -> Path:
    """Write checkpoint `update`, then remove those that neither `keep_last`, `keep_every` nor `pinned` keeps.

    Called on every rank; rank 0 writes what is common. `state` is JSON-able (panel cursors, tracker run id, ...); each
    writer fills one sub-folder of its name (the bank). Raises `CheckpointError` when it cannot be written, for example
    on a full disk; finished checkpoints are then untouched.
    """
    accelerator = learner.accelerator
    target, temporary = folder / _name(update), folder / f".{_name(update)}.tmp"
    if accelerator.is_main_process:
        for leftover in folder.glob(".*"):  # of a save or a removal that was killed
            shutil.rmtree(leftover)
    accelerator.wait_for_everyone()
    try:
        temporary.mkdir(parents=True, exist_ok=True)
        _save_tensors(temporary / f"random-{accelerator.process_index}.pt", random_states())
        learner.save_divided(temporary)
        learned = learner.state_dict()
        if accelerator.is_main_process:
            _save_tensors(temporary / "learner.pt", learned)
            write_json(temporary / "state.json", {"update": update, "state": dict(state)})
            for name, write in (writers or {}).items():
                (temporary / name).mkdir()
                write(temporary / name)
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            _seal(temporary, target)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise CheckpointError(
            f"Checkpoint {target} could not be written ({error}). Finished checkpoints are intact: free some space or "
            "lower learn.checkpoint.keep_last, then resume."
        ) from error
    if accelerator.is_main_process:
        _remove_old(folder, config, {update, *pinned})
    accelerator.wait_for_everyone()
    return target


def latest(folder: Path) -> Checkpoint | None:
    """The newest intact checkpoint, or None when there is none at all. Damaged ones are skipped, logged and named.

    Raises `CheckpointError` when checkpoints exist but all are damaged.
    """
    skipped: list[str] = []
    for update in sorted(_updates(folder), reverse=True):
        try:
            found = open_checkpoint(folder / _name(update))
        except CheckpointError as error:
            skipped.append(str(error))
            log.warning("%s An older checkpoint is tried.", error)
        else:
            return Checkpoint(found.path, found.update, found.state, tuple(skipped))
    if skipped:
        raise CheckpointError(f"No checkpoint in {folder} is intact; remove it to start again. {' '.join(skipped)}")
    return None


def open_checkpoint(path: Path) -> Checkpoint:
    """Verify one checkpoint against its manifest. Raises `CheckpointError` naming the first thing that is wrong."""
    try:
        manifest = json.loads((path / "manifest.json").read_text("utf-8"))
        for name, digest in manifest["sha256"].items():
            if _sha256(path / name) != digest:
                raise CheckpointError(f"Checkpoint {path} is damaged: {name} is not what was written.")
        content = json.loads((path / "state.json").read_text("utf-8"))
        return Checkpoint(path, content["update"], content["state"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"Checkpoint {path} is damaged: {error!r}.") from error


def restore(checkpoint: Checkpoint, learner: Learner) -> dict[str, Any]:
    """Put weights, optimizer and this rank's random states back; returns the caller's state.

    Raises `CheckpointError` when it was taken with another number of processes, `LearnError` for another model.
    """
    states = checkpoint.path / f"random-{learner.accelerator.process_index}.pt"
    world = len(list(checkpoint.path.glob("random-*.pt")))
    if world != learner.accelerator.num_processes:
        raise CheckpointError(f"{checkpoint.path} was written by {world} processes; resume with as many.")
    learner.load_state_dict(torch.load(checkpoint.path / "learner.pt", map_location="cpu", weights_only=True))
    learner.load_divided(checkpoint.path)
    set_random_states(torch.load(states, weights_only=True))
    return checkpoint.state


def _name(update: int) -> str:
    return f"update-{update:06d}"


def _updates(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("update-")) for path in folder.glob("update-[0-9]*"))


def _save_tensors(path: Path, value: Any) -> None:
    try:
        torch.save(value, path)
    except RuntimeError as error:  # how torch reports a failed write
        raise OSError(f"{path.name}: {str(error).splitlines()[0]}") from error


def _seal(temporary: Path, target: Path) -> None:
    """Manifest, fsync of everything, rename: from here on the checkpoint exists."""
    files = sorted(path for path in temporary.rglob("*") if path.is_file())
    write_json(
        temporary / "manifest.json", {"sha256": {str(path.relative_to(temporary)): _sha256(path) for path in files}}
    )
    for path in files:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    for path in [*temporary.rglob("*"), temporary]:
        if path.is_dir():
            fsync_folder(path)
    hidden = target.with_name(f".{target.name}.old")
    if target.exists():
        os.rename(target, hidden)
    os.rename(temporary, target)
    fsync_folder(target.parent)
    shutil.rmtree(hidden, ignore_errors=True)


def _remove_old(folder: Path, config: CheckpointConfig, pinned: set[int]) -> None:
    updates = _updates(folder)
    kept = pinned | set(updates[-config.keep_last :] if config.keep_last > 0 else [])
    for update in updates:
        if update not in kept and not (config.keep_every and update % config.keep_every == 0):
            _discard(folder / _name(update))


def _discard(path: Path) -> None:
    """Remove a folder so that no moment shows it half empty under its plain name."""
    hidden = path.with_name(f".{path.name}.old")
    os.rename(path, hidden)
    shutil.rmtree(hidden)


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
