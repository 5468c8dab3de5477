"""Reads the documentation as its tests need it: fenced blocks, commands, inline code."""

from __future__ import annotations

import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
NEEDS = "# needs"


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, first line, language, title (a file name, or empty) and text."""

    page: Path
    line: int
    language: str
    title: str
    text: str

    @property
    def place(self) -> str:
        """Where to look when it is wrong."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def needs(self) -> bool:
        """Whether the block says that it needs hardware, time or a network: such blocks are read, not run."""
        return any(line.strip().startswith(NEEDS) for line in self.text.splitlines())

    def commands(self) -> list[list[str]]:
        """The words of each command of a shell block; comments, `&&` and line continuations are gone."""
        joined = self.text.replace("\\\n", " ").replace(" && ", "\n")
        return [words for line in joined.splitlines() if (words := shlex.split(line, comments=True))]


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', match[2])
        line = text[: match.start()].count("\n") + 1
        found.append(Block(page, line, match[1], title[1] if title else "", match[3]))
    return found


def inline_code(page: Path) -> list[str]:
    """Every `code` outside fenced blocks; tables' escaped bars are bars."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return [code.replace("\\|", "|") for code in re.findall(r"`([^`\n]+)`", text)]


def write_files(page: Path, folder: Path) -> None:
    """Write the page's titled blocks as the files that their titles name."""
    for block in blocks(page):
        if block.title:
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")


def install(folder: Path) -> None:
    """Write what pip would write for the folder's pyproject.toml, so that its entry points are known."""
    if not (folder / "pyproject.toml").is_file():
        return
    about = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{about['name']}-{about['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    for group, points in about["entry-points"].items():
        lines = [f"{name} = {target}\n" for name, target in points.items()]
        (info / "entry_points.txt").write_text(f"[{group}]\n{''.join(lines)}")
