"""The live view of a training: a few lines that stay in place on a terminal, one line per update elsewhere.

Why: whoever waits wants to see whether it learns, whether memory is used and when it ends, without a browser; a log
file must stay readable. Invariants: showing never changes a run; whatever metric is missing is left out.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mh_train.run.progress import speaks

KEPT = 40
"""Updates that the small curves show."""
BARS = "▁▂▃▄▅▆▇█"
LINE = {
    "success": "env/success",
    "reward": "reward/mean",
    "asks": "memory/retrievals",
    "used": "memory/accepted",
    "bank": "memory/active",
    "entropy": "learn/entropy",
    "eval": "eval/success",
    "tok/s": "time/tokens_per_s",
    "s": "time/update_s",
}
"""The numbers of one line, by short name."""
Values = Mapping[str, float]


class Dashboard:
    """What is known of a training of `total` updates, `begun` of them done before."""

    def __init__(self, title: str, total: int, live: Live | None, begun: int = 0) -> None:
        self.title, self.total, self.live = title, total, live
        self.begun = self.done = begun
        self.started = time.monotonic()
        self.history: deque[Values] = deque(maxlen=KEPT)

    def advance(self, values: Values) -> None:
        """One more update is done; show it."""
        self.done += 1
        self.history.append(values)
        if self.live is not None:
            self.live.update(self.view(), refresh=True)
        elif speaks():
            told = "  ".join(f"{name} {values[metric]:.3g}" for name, metric in LINE.items() if metric in values)
            print(f"{self.title} {self.done}/{self.total}  {told}  left {self.time_left()}", flush=True)

    def time_left(self) -> str:
        """Hours, minutes, seconds to the end at the pace so far."""
        if self.done == self.begun:
            return "?"
        pace = (time.monotonic() - self.started) / (self.done - self.begun)
        seconds = int(pace * (self.total - self.done))
        hours, minutes = seconds // 3600, seconds % 3600 // 60
        return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds % 60:02d} s"

    def view(self) -> Group:
        """Progress, then one line each for success, reward, retrieval, bank, policy and speed."""
        head = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=max(self.total, 1), completed=self.done, width=30)
        head.add_row(Text(self.title, style="bold"), bar, f"{self.done}/{self.total}", f"left {self.time_left()}")
        body = Table.grid(padding=(0, 2))
        for name, told, metric in self.lines():
            body.add_row(Text(name, style="dim"), Text(told, style="bold"), Text(self.curve(metric), style="cyan"))
        return Group(head, body)

    def lines(self) -> Iterator[tuple[str, str, str]]:
        """(name, numbers in words, metric of the curve) of each line that the last update has numbers for."""
        last = self.history[-1] if self.history else {}
        for name, metric, parts in LINES:
            told = [text.format(last[part]) for part, text in parts if part in last]
            if told:
                yield name, ", ".join(told), metric

    def curve(self, metric: str) -> str:
        """The metric over the last updates in block characters, lowest to highest."""
        values = [row[metric] for row in self.history if metric in row]
        low, high = min(values, default=0.0), max(values, default=0.0)
        span = high - low
        return "".join(BARS[round((value - low) / span * 7)] if span > 0 else BARS[0] for value in values)


LINES: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "success",
        "env/success",
        (("env/success", "{:.1%}"), ("eval/success", "evaluation {:.1%}"), ("env/steps", "{:.1f} steps")),
    ),
    ("reward", "reward/mean", (("reward/mean", "{:.3g}"), ("reward/format", "format {:.0%}"))),
    (
        "memory",
        "memory/accepted",
        (
            ("memory/retrievals", "{:.2f} asked"),
            ("memory/accepted", "{:.2f} accepted"),
            ("memory/rejected", "{:.2f} rejected"),
        ),
    ),
    (
        "bank",
        "memory/active",
        (
            ("memory/active", "{:.0f} active"),
            ("memory/added", "{:.0f} new"),
            ("memory/pruned", "{:.0f} pruned"),
            ("memory/mean_utility", "utility {:.2f}"),
            ("memory/share_used", "{:.0%} used"),
        ),
    ),
    ("policy", "learn/entropy", (("learn/entropy", "entropy {:.3g}"), ("learn/grad_norm", "gradient {:.3g}"))),
    (
        "speed",
        "time/tokens_per_s",
        (("time/tokens_per_s", "{:,.0f} tokens/s"), ("time/update_s", "{:.1f} s an update")),
    ),
)
"""(name, metric of the curve, (metric, how it is told) ...) of each line of the live view."""


@contextmanager
def dashboard(title: str, total: int, begun: int = 0, console: Console | None = None) -> Iterator[Dashboard]:
    """The live view on a terminal, lines elsewhere."""
    if console is None and not (sys.stdout.isatty() and speaks()):
        yield Dashboard(title, total, None, begun)
        return
    with Live(console=console or Console(), auto_refresh=False) as live:
        shown = Dashboard(title, total, live, begun)
        live.update(shown.view(), refresh=True)
        yield shown
