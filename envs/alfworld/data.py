"""Finding ALFWorld games on disk: the real download and generated ones alike.

Why: AlfredTWEnv's rules (which games count) without its faults: it parses every game file whole at every start, keeps
the order of the file system, and reports no games as "0 games".
Invariant: for the same files the same tasks in the same order on every machine.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from envs.base import EnvDataError, Task

SPLITS = ("train", "valid_seen", "valid_unseen")
TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
GAME_FILE = "game.tw-pddl"
TRAJECTORY_FILE = "traj_data.json"

_TAIL_BYTES = 8192
_SOLVABLE = re.compile(rb'"solvable"\s*:\s*(true|false)')  # inside a JSON string its quotes would be escaped


def split_folder(data: str | os.PathLike[str] | None, split: str) -> Path:
    """The folder with a split's games: below `data` (default `$ALFWORLD_DATA`, else ~/.cache/alfworld), or below the
    newest json_2.1.* folder in it that has the split. Raises `EnvDataError` when there is none."""
    if split not in SPLITS:
        raise EnvDataError(f"ALFWorld has no split {split!r}; choose one of {', '.join(SPLITS)}.")
    root = Path(data or os.environ.get("ALFWORLD_DATA") or "~/.cache/alfworld").expanduser()
    for folder in (root, *sorted(root.glob("json_2.1.*"), reverse=True)):
        if (folder / split).is_dir():
            return (folder / split).absolute()
    raise EnvDataError(_missing(split, root))


def task_type(path: str) -> str:
    """The task type of a game, from its path: `…/{type}-{objects}-{scene}/{trial}/game.tw-pddl`."""
    return path.split("/")[-3].split("-")[0]


def find_tasks(data: str | os.PathLike[str] | None, split: str) -> list[Task]:
    """The split's games as tasks, sorted by their path below the split's folder, which is their id.

    As in AlfredTWEnv a game counts when traj_data.json lies beside it, its path has neither "movable" nor "Sliced" in
    it, its type is known and it says `"solvable": true`. Raises `EnvDataError` for no games or a broken file.
    """
    folder = split_folder(data, split)
    tasks = []
    for place, _, files in os.walk(folder):
        if GAME_FILE not in files or TRAJECTORY_FILE not in files:
            continue
        identifier = Path(place, GAME_FILE).relative_to(folder).as_posix()
        if "movable" in identifier or "Sliced" in identifier:
            continue
        path = str(Path(place, GAME_FILE))
        kind = task_type(Path(path).as_posix())
        if kind in TASK_TYPES and _solvable(path):
            tasks.append(Task(identifier, "alfworld", split, kind, {"game": path}))
    if not tasks:
        raise EnvDataError(_missing(split, folder))
    return sorted(tasks, key=lambda task: task.id)


def _solvable(path: str) -> bool:
    """Whether the game file says that it is solvable. The flag follows the long texts, so that the file's end is
    enough."""
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        tail = file.read()
        if not tail.rstrip().endswith(b"}"):
            raise EnvDataError(f"The ALFWorld game file {path} is cut off; download or generate it again.")
        found = _SOLVABLE.search(tail)
        if found is None:
            file.seek(0)
            found = _SOLVABLE.search(file.read())
    return found is not None and found[1] == b"true"


def _missing(split: str, folder: Path) -> str:
    return (
        f"There are no ALFWorld games of split {split!r} in {folder}. Run `alfworld-download` and set ALFWORLD_DATA "
        "to its folder, or generate mini games with `mh-train data` and name their folder in env.options.data."
    )
