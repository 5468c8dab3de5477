"""What was computed from texts, kept by the hash of the texts: in a folder, shared by all processes.

Why: translating one game costs a CPU-second, parsing the grammar several; every worker and every stage needs both.
Invariants: an entry is a function of its key; it is written whole or not at all; an unreadable one is computed again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)


class DiskCache:
    """JSON values in `folder`, one compressed file each; without a folder nothing is kept.

    `failures` counts entries that could not be read or written, which costs time and nothing else; the first is logged.
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self._folder = Path(folder).expanduser() if folder else None
        self.failures = 0

    def get(self, key: tuple[str, ...], compute: Callable[[], Any]) -> Any:
        """The value stored under the texts in `key`, or that of `compute`, which is then stored."""
        if self._folder is None:
            return compute()
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()
        path = self._folder / digest[:2] / f"{digest}.z"
        try:
            return json.loads(zlib.decompress(path.read_bytes()))
        except FileNotFoundError:
            pass
        except (OSError, zlib.error, ValueError) as error:
            self._failed("read", path, error)
        value = compute()
        try:
            _write(path, zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1))
        except OSError as error:
            self._failed("written", path, error)
        return value

    def _failed(self, what: str, path: Path, error: Exception) -> None:
        self.failures += 1
        if self.failures == 1:
            logger.warning("A cached ALFWorld game cannot be %s (%s: %s); it is computed instead.", what, path, error)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
