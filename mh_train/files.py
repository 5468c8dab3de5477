"""Durable files: written to a temporary name, fsynced, renamed; so that a reader sees the old file or the new one.

Why: a killed run or a full disk must never leave half a file under a good name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_atomic(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Replace `path` by `data` durably. Raises `OSError` (disk full, no permission); `path` then is as it was."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    fsync_folder(target.parent)


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value as indented JSON with sorted keys, durably."""
    write_atomic(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def write_jsonl(path: str | os.PathLike[str], values: Iterable[Any]) -> None:
    """Write one JSON value a line, durably."""
    write_atomic(path, "".join(json.dumps(value, ensure_ascii=True) + "\n" for value in values))


def fsync_folder(folder: str | os.PathLike[str]) -> None:
    """Make the renames inside a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
