"""Run folders in, one HTML text out: what every tab shows, within a size that can be mailed.

Why: everything worth knowing about a run should be one file. Invariants: equal folders give equal reports but for the
time in them; what does not fit is left out by a rule that the report states.
Run: `mh-train report runs/quickstart --out report.html`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mh_train import __version__
from mh_train.report.cells import cell_pages, cell_rows
from mh_train.report.episodes import COLUMNS, Row, index_rows, packed_page, token_texts, trajectory_files
from mh_train.report.flags import flags
from mh_train.report.html import pack, page
from mh_train.report.notes import metric_notes
from mh_train.report.source import Run, metric_series, tokenizer_file

MEGABYTE = 1_000_000
NAMES = ("split", "task", "type")


@dataclass(frozen=True)
class Options:
    """`megabytes`: the size to stay below where it can; `refresh` > 0: the page reloads every so many seconds."""

    megabytes: float = 4.5
    refresh: int = 0


@dataclass
class Part:
    """One run and its bank, which the memory room reads; `bank_note` says why there is none."""

    run: Run
    bank: Mapping[str, Any] | None = None
    bank_note: str = ""


def build(parts: Sequence[Part], options: Options = Options()) -> str:
    """The report of one or more runs as HTML text."""
    blocks: dict[str, str] = {}
    told = [_run(place, part, blocks) for place, part in enumerate(parts)]
    size = sum(map(len, blocks.values())) + 200_000
    room = max(options.megabytes * MEGABYTE - size, 0) / len(parts)
    for place, part in enumerate(parts):
        told[place]["stories"] = _stories(place, part, blocks, room)
    main = {
        "made": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "version": __version__,
        "refresh": options.refresh,
        "notes": metric_notes(),
        "runs": told,
    }
    title = " · ".join(part.run.name for part in parts)
    return page(f"{title} · mh_train report", {"main": pack(main), **blocks})


def _run(place: int, part: Part, blocks: dict[str, str]) -> dict[str, Any]:
    """What is always there of a run; adds its index and bank blocks."""
    run = part.run
    series = metric_series(run.metrics)
    rows = [row for update, path in trajectory_files(run.path).items() for row in index_rows(update, path)]
    sources: list[dict[str, Any]] = [{"kind": "train", "count": len(rows)}]
    for number, cell in enumerate(run.cells):
        found = cell_rows(cell)
        about = {"policy": cell.policy, "panel": cell.panel, "hash": cell.panel_hash, "mode": cell.mode}
        sources.append(
            {"kind": "eval", "count": len(found), "block": f"{place}-cell{number}", **about, "seed": cell.seed}
        )
        rows += found
    blocks[f"{place}-index"] = pack(_columns(rows))
    if part.bank is not None:
        blocks[f"{place}-bank"] = pack(part.bank)
    return {
        "name": run.name,
        "folder": run.path.name,
        "config": run.config,
        "software": run.software,
        "metrics": series,
        "cold_start": run.cold_start,
        "evaluations": run.evaluations,
        "flags": [asdict(flag) for flag in flags(series["series"], series["updates"])],
        "sources": sources,
        "bank": part.bank is not None,
        "bank_note": part.bank_note,
    }


def _columns(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows by column; names that repeat as numbers into lists; the records that each retrieval brought, likewise."""
    names = {name: list(dict.fromkeys(row[name] for row in rows)) for name in NAMES}
    place = {name: {text: i for i, text in enumerate(found)} for name, found in names.items()}
    columns = {name: [place[name][row[name]] if name in place else row[name] for row in rows] for name in COLUMNS}
    records: dict[str, int] = {}
    asked = [
        [[step, outcome, [records.setdefault(r, len(records)) for r in hits]] for step, outcome, hits in row["asked"]]
        for row in rows
    ]
    return {"columns": columns, "names": names, "asked": asked, "records": list(records)}


def _stories(place: int, part: Part, blocks: dict[str, str], room: float) -> dict[str, Any]:
    """Whole episodes: up to half of the room for evaluated ones (see `cells`), the rest for pages of as many updates as
    fit: the first, the last, then always the middle of what is still apart."""
    files = trajectory_files(part.run.path)
    tokenizer = tokenizer_file(part.run.path)
    pages, tasks = cell_pages(part.run.cells, {} if tokenizer is None else token_texts(tokenizer), room / 2)
    blocks |= {f"{place}-cell{number}": packed for number, packed in enumerate(pages)}
    room -= sum(map(len, pages))
    shown: dict[int, str] = {}
    for update in spread(list(files)):
        packed = packed_page(files[update], tokenizer)
        if len(packed) > room and not shown:  # one update alone is too much: some of its groups
            packed = packed_page(files[update], tokenizer, share=max(0.8 * room / len(packed), 0.0))
        if len(packed) > room:
            break
        name = f"{place}-u{update}"
        blocks[name], shown[update] = packed, name
        room -= len(packed)
    return {"blocks": shown, "updates": len(files), "tasks": tasks}


def spread(updates: Sequence[int]) -> Iterator[int]:
    """Last, first, and then middles of ever smaller stretches: any beginning of this covers the whole run evenly."""
    if not updates:
        return
    yield updates[-1]
    if len(updates) > 1:
        yield updates[0]
    stretches = [(0, len(updates) - 1)]
    while stretches:
        low, high = stretches.pop(0)
        middle = (low + high) // 2
        if low < middle < high:
            yield updates[middle]
            stretches += [(low, middle), (middle, high)]
