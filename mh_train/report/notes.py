"""What each metric means and which values are healthy, out of the table in `docs/metrics.md`.

Why: the report explains its curves with the words of the documentation, which are kept in one place.
"""

from __future__ import annotations

import re
from pathlib import Path

CODE = re.compile(r"`([^`]+)`")


def metric_notes() -> dict[str, tuple[str, str]]:
    """Metric -> (meaning, healthy range); a name may end in `*`. Empty where the page is not installed."""
    here = Path(__file__).resolve().parents[1]
    for path in (here / "docs" / "metrics.md", here.parent / "docs" / "metrics.md"):
        if path.is_file():
            return parse_notes(path.read_text(encoding="utf-8"))
    return {}


def parse_notes(page: str) -> dict[str, tuple[str, str]]:
    """Rows `| names in code marks | meaning | healthy |` of a Markdown page."""
    notes = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3:
            for name in CODE.findall(cells[0]):
                notes[re.sub(r"<\w+>", "*", name)] = (cells[1].replace("`", ""), cells[2].replace("`", ""))
    return notes
