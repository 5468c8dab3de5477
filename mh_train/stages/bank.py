"""Look at the memories of a run, and edit them by hand.

Run: `mh-train bank list runs/quickstart`, `mh-train bank why runs/quickstart "toaster bread"`,
`mh-train bank export runs/quickstart bank.jsonl`; `mh-train bank --help` lists all.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mh_train.config import RunConfig
from mh_train.memory import inspect, transfer
from mh_train.memory.bank import Bank
from mh_train.memory.bankfile import problems, read_bank_file
from mh_train.memory.embed import make_embedder
from mh_train.run.folder import RunFolder

READING = ("list", "show", "stats", "history", "verify", "diff", "why", "export")
FOLDED = ("memory", "terms", "reason", "detail", "value")
"""Columns that may be broken into lines; the others are short."""
WIDE = 160
"""Columns of a table in a file or a pipe."""
SHORTEST_ID = 8
EDITING = ("import", "archive", "pin", "unpin")


def main(words: Sequence[str]) -> int:
    """One command on one bank; 1 when `verify` finds something wrong."""
    asked = _parser().parse_args(words)
    return _edit(asked) if asked.command in EDITING else _read(asked)


def _read(asked: argparse.Namespace) -> int:
    bank, rest = read_bank_file(asked.bank), asked.rest
    match asked.command:
        case "list":
            shown = inspect.list_records(bank, asked.state, asked.type, asked.env, asked.contains, asked.limit)
        case "show":
            shown = inspect.show(bank, _one(rest, "a record id"))
        case "stats":
            shown = inspect.stats(bank)
        case "history":
            shown = inspect.history(bank, rest[0] if rest else "", asked.limit)
        case "diff":
            shown = inspect.diff(bank, read_bank_file(Path(_one(rest, "a second bank"))))
        case "why":
            config = _run_config(asked.bank)
            embedder = make_embedder(config.memory.embedder)
            shown = inspect.why(bank, embedder, config.memory, _one(rest, "a query"), asked.env or config.env.name)
        case "export":
            count = transfer.export(bank, Path(_one(rest, "a file")))
            print(f"{count} memories written to {rest[0]}")
            return 0
        case _:
            found = list(problems(bank))
            print("\n".join(found) or f"{len(bank.state.records)} memories, nothing wrong; digest {bank.digest}")
            return 1 if found else 0
    _print(shown, bank.state.records)
    return 0


def _edit(asked: argparse.Namespace) -> int:
    config = _run_config(asked.bank)
    bank = Bank(config.memory, make_embedder(config.memory.embedder), RunFolder(asked.bank).bank, config.name)
    try:
        if asked.command == "import":
            source = Path(_one(asked.rest, "a file"))
            planned = transfer.preview(bank, transfer.read_export(source), config.memory)
            _print(planned.table(), bank.records)
            if asked.yes:
                print(f"{transfer.import_records(bank, planned, source.name, asked.copies)} memories imported")
            else:
                print("Nothing was changed; --yes imports the new ones, --copies also those that are copies.")
        elif asked.command == "archive":
            transfer.archive(bank, asked.rest, asked.reason)
        else:
            transfer.pin(bank, asked.rest, asked.reason, asked.command == "pin")
    finally:
        bank.close()
    return 0


def _run_config(path: Path) -> RunConfig:
    return RunFolder.existing(path)[1]


def _one(rest: Sequence[str], what: str) -> str:
    if len(rest) != 1:
        raise ValueError(f"give {what} after the bank; mh-train bank --help shows the commands.")
    return rest[0]


def _print(shown: inspect.Table, names: Collection[str]) -> None:
    """Memories are hostile text: they are printed as they are, never as markup. `names`: all ids of the bank, of which
    as many letters are shown as tell them apart."""
    letters = next(n for n in range(SHORTEST_ID, 65) if len({name[:n] for name in names}) == len(names))
    table = RichTable(title=Text(shown.title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in shown.columns:
        table.add_column(column, overflow="fold", no_wrap=column not in FOLDED)
    for row in shown.rows:
        cells = (str(v)[:letters] if c == "id" else str(v) for c, v in zip(shown.columns, row, strict=True))
        table.add_row(*(Text(cell) for cell in cells))
    told = sys.stdout.isatty() or "COLUMNS" in os.environ
    Console(width=None if told else WIDE).print(table)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mh-train bank",
        description="Memories of a run folder, a bank folder, a snapshot or a checkpoint; finished or still running.",
        epilog="why BANK QUERY; show BANK ID; history BANK [ID]; diff BANK BANK; export BANK FILE; pin BANK ID...",
    )
    parser.add_argument("command", choices=[*READING, *EDITING])
    parser.add_argument("bank", type=Path, help="where it is; editing commands want the run folder")
    parser.add_argument("rest", nargs="*", help="record ids, a query, a file, a second bank")
    for name in ("state", "type", "env", "contains"):
        parser.add_argument(f"--{name}", default="", help="only records with this")
    parser.add_argument("--limit", type=int, default=0, help="at most so many rows")
    parser.add_argument("--reason", default="by hand", help="why an edit is made; kept in the journal")
    parser.add_argument("--yes", action="store_true", help="import, after looking at the preview")
    parser.add_argument("--copies", action="store_true", help="import copies of existing memories too")
    return parser
