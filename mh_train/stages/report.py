"""Write one HTML file about one or more runs: overview, curves, episodes, bank, comparison.

Why: a researcher opens, mails and keeps one file. Invariant: only reads the run folders; the file is whole or absent.
Run: `mh-train report runs/quickstart --out report.html`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mh_train.files import write_atomic
from mh_train.memory.bankfile import read_bank_file
from mh_train.memory.records import MemoryStoreError
from mh_train.report.bank import bank_data
from mh_train.report.build import Options, Part, build
from mh_train.report.source import ReportError, read_run
from mh_train.run.progress import say

REPORT_FILE = "report.html"


def main(words: Sequence[str]) -> int:
    """Write the report of the run folders named; 0."""
    parser = argparse.ArgumentParser(prog="mh-train report", description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, the reference first")
    parser.add_argument("--out", type=Path, help=f"the file to write (default: {REPORT_FILE} in the first run folder)")
    parser.add_argument("--megabytes", type=float, default=Options.megabytes, help="size to stay below (default 4.5)")
    given = parser.parse_args(words)
    write_report(given.runs, given.out or given.runs[0] / REPORT_FILE, Options(given.megabytes))
    return 0


def write_report(runs: Sequence[Path], out: Path, options: Options = Options()) -> None:
    """Read the runs and write the report. Raises `ReportError` for what is no run folder and a file that cannot be
    written."""
    text = build([read_part(run) for run in runs], options)
    try:
        write_atomic(out, text)
    except OSError as error:
        raise ReportError(f"The report {out} cannot be written ({error.strerror}); give another --out.") from error
    say(f"report   {out} ({len(text) / 1e6:.1f} MB)")


def read_part(path: Path) -> Part:
    """A run with its bank; a bank that cannot be read is a note in the report."""
    run = read_run(path)
    part = Part(run)
    try:
        bank = read_bank_file(path)
    except MemoryStoreError as error:
        part.bank_note = str(error)
        return part
    records = [record.to_json() for record in bank.state.records.values()]
    part.bank = bank_data(records, bank.state.vectors, [event.__dict__ for event in bank.events])
    return part
