"""Makes the mini ALFWorld data: games in the folder layout of the real download, written all at once.

Why: the environment, the stock `AlfredTWEnv` and every experiment read mini and real data alike, so that everything
can be tried offline. Invariants: the same seed and sizes give the same bytes on every machine; the data folder appears
only when it is complete (a half-written one keeps another name), and data that this maker did not write is never
replaced.
Run: `mh-train data` with `data.maker=envs.alfworld.mini:generate`, or
`python -m envs.alfworld.mini ROOT [--variant conventions] [--seed 0]`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from envs.alfworld.data import GAME_FILE
from envs.alfworld.mini import conventions, floorplans
from envs.alfworld.mini.check import plays
from envs.alfworld.mini.game import Game
from envs.alfworld.mini.pddl import files
from envs.base import EnvDataError

DATA_FOLDER = "json_2.1.1"
MANIFEST = "mini.json"
GENERATION = 2
"""Raised whenever the same settings would give other games than before, so that old data is replaced."""
VARIANTS: dict[str, Callable[..., Iterator[Game]]] = {"floorplans": floorplans.games, "conventions": conventions.games}


def generate(
    root: str | Path,
    seed: int = 0,
    *,
    variant: str = "floorplans",
    train: int = 480,
    seen: int = 60,
    unseen: int = 60,
    check: int = 0,
    **options: Any,
) -> dict[str, Any]:
    """Write the games of `variant` below `root/json_2.1.1/{train,valid_seen,valid_unseen}` and return a summary.

    `train`, `seen` and `unseen` are the numbers of games; `options` go to the variant (`conventions.games`,
    `floorplans.games`). Every game is solvable by construction (a plan is derived from its placement and stored as its
    walkthrough); the first `check` games of each split are also played through the engine (-1: all).
    The summary holds the settings, `games` (split -> number), `types` (split -> type -> number), `checked`, `digest`
    (sha256 over all paths and bytes), `seconds`. Asking again for what is there already only returns its summary.
    Raises EnvDataError when `root` holds data that is not this maker's.
    """
    if variant not in VARIANTS:
        raise ValueError(f"Unknown variant {variant!r}; choose one of {', '.join(VARIANTS)}")
    root = Path(root)
    sizes = {"train": train, "valid_seen": seen, "valid_unseen": unseen}
    settings = {"generation": GENERATION, "variant": variant, "seed": seed, **sizes, **options}
    data = root / DATA_FOLDER
    made = _made_before(data)
    if made is not None and made["settings"] == settings:
        return made
    started = time.monotonic()
    draft = root / f".{DATA_FOLDER}.part"
    shutil.rmtree(draft, ignore_errors=True)
    games = {split: list(VARIANTS[variant](seed, split, number, **options)) for split, number in sizes.items()}
    digest = _write(draft, [game for split in games.values() for game in split])
    chosen = [game for split in games.values() for game in (split if check < 0 else split[:check])]
    for game in chosen:
        plays(draft / game.folder / GAME_FILE)
    summary = {
        "settings": settings,
        "games": {split: len(made) for split, made in games.items()},
        "types": {split: dict(sorted(Counter(game.type for game in made).items())) for split, made in games.items()},
        "checked": len(chosen),
        "digest": digest,
        "seconds": round(time.monotonic() - started, 2),
    }
    _publish(draft, data, summary)
    return summary


def _made_before(data: Path) -> dict[str, Any] | None:
    manifest = data / MANIFEST
    if manifest.exists():
        return json.loads(manifest.read_text(encoding="utf-8"))
    if data.exists():
        raise EnvDataError(f"{data} holds data that the mini generator did not write; choose another data.root")
    return None


def _write(draft: Path, games: Sequence[Game]) -> str:
    """Write the files of all games below `draft`; the sha256 over their paths and bytes."""
    digest = hashlib.sha256()
    contents: list[tuple[Path, bytes]] = []
    for game in games:
        for name, text in files(game).items():
            data = text.encode()
            digest.update(f"{game.folder}/{name}\0{len(data)}\0".encode())
            digest.update(data)
            contents.append((draft / game.folder / name, data))
    with ThreadPoolExecutor(8) as pool:  # the disk's waiting times overlap
        list(pool.map(_save, *zip(*contents, strict=True)))
    return digest.hexdigest()


def _save(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _publish(draft: Path, data: Path, summary: dict[str, Any]) -> None:
    """Complete the draft with its manifest and put it in place of older games."""
    _save(draft / MANIFEST, json.dumps(summary, indent=1, sort_keys=True).encode())
    shutil.rmtree(data, ignore_errors=True)
    draft.rename(data)
