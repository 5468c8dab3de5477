"""Write the report of a run again whenever the run has grown; the open page reloads itself.

Why: curves, episodes and memories can be read while training works. Invariant: only reads the run folder, and reads of
it only what is new; a report that is being written never replaces a whole one.
Run: `mh-train watch runs/quickstart`, then open `runs/quickstart/report.html`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from mh_train.report.build import Options
from mh_train.stages.report import REPORT_FILE, write_report

GROWING = ("metrics.jsonl", "eval/eval.json", "eval/cold_start/eval.json")


def main(words: Sequence[str]) -> int:
    """Watch until interrupted, or once with `--once`; 0."""
    parser = argparse.ArgumentParser(prog="mh-train watch", description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument("--out", type=Path, help=f"the file to write (default: {REPORT_FILE} in the run folder)")
    parser.add_argument("--every", type=int, default=30, help="seconds between two looks (default 30)")
    parser.add_argument("--once", action="store_true", help="write it once and stop")
    given = parser.parse_args(words)
    out, seen = given.out or given.run / REPORT_FILE, None
    while True:
        now = stamps(given.run)
        if now != seen:
            write_report([given.run], out, Options(refresh=0 if given.once else max(given.every, 5)))
            seen = now
        if given.once:
            return 0
        time.sleep(given.every)


def stamps(run: Path) -> tuple[int, ...]:
    """Times of writing of what grows while a run works (0 for what is not there yet)."""
    return tuple((run / name).stat().st_mtime_ns if (run / name).is_file() else 0 for name in GROWING)
