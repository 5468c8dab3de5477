"""What a person sees while a run works: progress bars on a terminal, one line per step otherwise.

Why: the numbers that matter belong in front of whoever waits; a log file must stay readable. Invariant: showing
progress never changes a run; of several processes only rank 0 speaks.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Bar:
    """One running piece of work."""

    def __init__(self, title: str, total: int, progress: Progress | None, every_s: float) -> None:
        self.title, self.total, self.done = title, total, 0
        self.progress, self.every_s = progress, every_s
        self.shown_at = 0.0
        self.task = progress.add_task(title, total=total, numbers="") if progress else None

    def advance(self, values: Mapping[str, float | str] | None = None, steps: int = 1) -> None:
        """Move on by `steps` and show the values."""
        self.done += steps
        numbers = "  ".join(f"{name} {_short(value)}" for name, value in (values or {}).items())
        if self.progress is not None and self.task is not None:
            self.progress.update(self.task, advance=steps, numbers=numbers)
        elif speaks() and (self.done >= self.total or time.monotonic() - self.shown_at >= self.every_s):
            self.shown_at = time.monotonic()
            print(f"{self.title} {self.done}/{self.total}  {numbers}", flush=True)


@contextmanager
def bar(title: str, total: int, every_s: float = 0.0) -> Iterator[Bar]:
    """A progress bar on a terminal, or at most one line every `every_s` seconds elsewhere."""
    if not sys.stdout.isatty() or not speaks():
        yield Bar(title, total, None, every_s)
        return
    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[numbers]}"),
    )
    with Progress(*columns, console=Console()) as progress:
        yield Bar(title, total, progress, every_s)


def say(text: str) -> None:
    """One line about what happens now."""
    if speaks():
        print(text, flush=True)


def speaks() -> bool:
    """Whether this process talks to the person: of several, only the first. Launchers name a process's rank in RANK."""
    return os.environ.get("RANK", "0") == "0"


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"
