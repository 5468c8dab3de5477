"""Files of a store while it is built: written under a temporary name, flushed to disk, then renamed.

Invariant: a file under its final name is complete, so a build that was killed goes on from what it finds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

Progress = Callable[[str, int, int], None]
"""Called with (what is done, units done, units in all)."""


def flush(path: Path) -> None:
    """Wait until a file is on disk."""
    with path.open("rb") as handle:
        os.fsync(handle.fileno())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file in one go."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    flush(temporary)
    temporary.rename(path)


def write_arrays(path: Path, **arrays: Any) -> None:
    """Write several arrays into one .npz file."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as handle:
        np.savez(handle, **arrays)
    flush(temporary)
    temporary.rename(path)


class TextsWriter:
    """Writes `NAME.bin` and `NAME.ends.npy` for `envs.webshop.store.Texts`; use as a context manager."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._handle = (folder / f"{name}.bin").open("wb")
        self._ends = [np.zeros(0, np.int64)]
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def append(self, texts: Iterable[bytes]) -> None:
        """Add texts at the end."""
        texts = list(texts)
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64) + self._size
        self._handle.write(b"".join(texts))
        if len(ends):
            self._ends.append(ends)
            self._size = int(ends[-1])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handle.close()
        if kind is None:
            np.save(self._folder / f"{self._name}.ends.npy", np.concatenate(self._ends))


def new_array(folder: Path, name: str, kind: Any, shape: int) -> Any:
    """An array on disk, to be filled in place: `NAME.npy`, one-dimensional."""
    if shape == 0:
        empty = np.zeros(0, kind)
        np.save(folder / f"{name}.npy", empty)
        return empty
    return np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.dtype(kind), shape=(shape,))
