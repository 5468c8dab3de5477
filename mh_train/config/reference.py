"""Writes `docs/configuration.md` from the schema's own comments and from the first lines of the YAML files.

Why: a second description of the settings would be out of date within a week; here the code is the only one.
Invariant: the page is a function of `schema/` and `configs/` alone, and every setting is on it exactly once.
Run: `python -m mh_train.config.reference docs/configuration.md` (without a file name it prints the page).
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mh_train.config.compose import config_dir
from mh_train.files import write_atomic

SCHEMA = Path(__file__).with_name("schema")
ROOT = "RunConfig"
NO_GROUPS = ("accelerate", "sweep")
"""Folders of `configs/` that no setting chooses from: files for Accelerate, and whole command lines."""
HEAD = """# Configuration

<!-- Written by `python -m mh_train.config.reference docs/configuration.md` from mh_train/config/schema/. -->

A run is one choice per group plus any number of single settings, on the command line or in a YAML file of your own:

```bash
mh-train grpo experiment=quickstart memory=replay learn.lr=1e-4 name=mine --dry-run
```

`--dry-run` prints the resolved configuration and the sizes that follow from it. An unknown key, a wrong type or a
combination that cannot work is refused with a sentence before anything is loaded. `-m` runs every combination of
comma-separated values. Mappings called `options` are open: `'+engine.options={name: value}'` adds to them. A folder of
your own YAML files joins in with `'hydra.searchpath=[file:///path/to/configs]'`.
"""


@dataclass(frozen=True)
class Setting:
    """One field of a schema class: its type and default as written in the code, and its comment."""

    name: str
    type: str
    default: str
    comment: str


@dataclass(frozen=True)
class Section:
    """One class of the schema: its fields (of an enum: its values) and the enum's docstring."""

    name: str
    doc: str
    is_enum: bool
    settings: tuple[Setting, ...]


def schema_source() -> str:
    """The text of all files of the schema, in the order of their names."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(SCHEMA.glob("*.py")))


def read_schema(source: str) -> dict[str, Section]:
    """Class name -> its section, in the order of the text."""
    comments = _comments(source)
    sections = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            is_enum = any(ast.unparse(base) == "Enum" for base in node.bases)
            settings = tuple(_setting(item, comments, source) for item in node.body if not isinstance(item, ast.Expr))
            sections[node.name] = Section(node.name, ast.get_docstring(node) or "", is_enum, settings)
    return sections


def page(source: str, configs: Path) -> str:
    """The whole page as Markdown: config groups, then every section of the schema with its dotted keys."""
    sections = read_schema(source)
    tables = [_table(sections, path, section) for path, section in _walk(sections, ROOT, "")]
    return "\n".join([HEAD, "## Groups\n", *_groups(configs), *tables])


def _comments(source: str) -> dict[int, str]:
    """Line number -> the comment on it."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}


def _setting(node: ast.stmt, comments: dict[int, str], source: str) -> Setting:
    """A field (`name: type = default`) or an enum's value, with the comments on its lines or the lines above it."""
    first, last = node.lineno, node.end_lineno or node.lineno
    lines = source.splitlines()
    while lines[first - 2].lstrip().startswith("#"):
        first -= 1
    comment = " ".join(comments[line] for line in range(first, last + 1) if line in comments)
    if isinstance(node, ast.AnnAssign):
        default = "" if node.value is None else _default(node.value)
        return Setting(ast.unparse(node.target), ast.unparse(node.annotation), default, comment)
    assert isinstance(node, ast.Assign)
    return Setting(ast.unparse(node.targets[0]), "", ast.unparse(node.value), comment)


def _default(node: ast.expr) -> str:
    """The default as a command line would write it."""
    if isinstance(node, ast.Name) and node.id == "MISSING":
        return "must be given"
    if isinstance(node, ast.Call):  # field(default_factory=...)
        factory = node.keywords[0].value
        body = factory.body if isinstance(factory, ast.Lambda) else factory
        return {"dict": "{}", "list": "[]"}.get(ast.unparse(body), ast.unparse(body)).replace("'", "")
    if isinstance(node, ast.Attribute):  # an enum's value
        return node.attr
    text = ast.unparse(node).strip("'\"")
    return {"True": "true", "False": "false", "None": "null"}.get(text, text)


def _walk(sections: dict[str, Section], name: str, path: str) -> Iterator[tuple[str, Section]]:
    yield path, sections[name]
    for setting in sections[name].settings:
        if setting.type in sections and not sections[setting.type].is_enum:
            yield from _walk(sections, setting.type, f"{path}.{setting.name}".lstrip("."))


def _table(sections: dict[str, Section], path: str, section: Section) -> str:
    """One section's rows; fields that are sections themselves have their own table."""
    rows = []
    for setting in section.settings:
        kind = sections.get(setting.type)
        if kind is not None and not kind.is_enum:
            continue
        meaning = setting.comment
        if kind is not None:
            values = ", ".join(f"`{v.name}`" + (f" ({v.comment})" if v.comment else "") for v in kind.settings)
            meaning = f"{meaning}: {values}" if meaning else values
        key = f"{path}.{setting.name}".lstrip(".")
        rows.append(f"| `{key}` | `{setting.default or '(empty)'}` | {_cell(meaning)} |")
    if not rows:
        return ""
    title = f"## {path}" if path else "## The run"
    return "\n".join([f"\n{title}\n", "| setting | default | meaning |", "|---|---|---|", *rows])


def _groups(configs: Path) -> Iterator[str]:
    """The choices of each group with the first sentence of their files."""
    yield "| choice | what it is |\n|---|---|"
    for path in sorted(configs.glob("*/*.yaml")):
        if path.parent.name in NO_GROUPS:
            continue
        lines = [line for line in path.read_text().splitlines() if not line.startswith("# @package")]
        head = []
        for line in lines:
            if not line.startswith("#"):
                break
            head.append(line.lstrip("# "))
        sentence = re.split(r"(?<=\w{4})\. ", " ".join(head))[0].rstrip(".")
        yield f"| `{path.parent.name}={path.stem}` | {_cell(sentence)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def main(words: list[str]) -> None:
    """Print the page, or write it to the file that is named."""
    text = page(schema_source(), config_dir())
    if words:
        write_atomic(Path(words[0]), text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
