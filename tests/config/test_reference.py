"""The configuration page is the schema, nothing more and nothing less."""

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from mh_train.config import schema
from mh_train.config.compose import config_dir
from mh_train.config.reference import page, read_schema, schema_source

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def keys(kind: Any, path: str = "") -> list[str]:
    """The dotted keys of a schema class, found by Python rather than by the generator's parser."""
    hints = get_type_hints(kind)
    found = []
    for item in fields(kind):
        name = f"{path}.{item.name}".lstrip(".")
        found += keys(hints[item.name], name) if is_dataclass(hints[item.name]) else [name]
    return found


def test_the_page_is_current():
    new = page(schema_source(), config_dir()) + "\n"
    assert PAGE.read_text() == new, "run: python -m mh_train.config.reference docs/configuration.md"


def test_every_setting_is_on_the_page_once():
    told = re.findall(r"^\| `([a-z_.0-9]+)` \|", PAGE.read_text(), flags=re.MULTILINE)
    assert sorted(told) == sorted(keys(schema.RunConfig))


def test_every_setting_and_every_value_says_what_it_is():
    sections = read_schema(schema_source())
    silent = [
        f"{section.name}.{setting.name}"
        for section in sections.values()
        for setting in section.settings
        if not setting.comment and (section.is_enum or setting.type not in sections or sections[setting.type].is_enum)
    ]
    assert silent == []


def test_comments_are_read_beside_above_and_below_a_field():
    source = (
        "class Kind(str, Enum):\n    '''Doc.'''\n    a = 'a'  # first\n"
        "class C:\n    kind: Kind = Kind.a  # beside\n"
        "    # above\n    x: list[str] = field(default_factory=lambda: ['a'])\n"
        "    y: bool = (\n        True\n    )  # below\n    z: str = MISSING\n"
    )
    kind, told = read_schema(source).values()
    assert (kind.is_enum, kind.doc, [v.comment for v in kind.settings]) == (True, "Doc.", ["first"])
    assert [(s.name, s.default, s.comment) for s in told.settings] == [
        ("kind", "a", "beside"),
        ("x", "[a]", "above"),
        ("y", "true", "below"),
        ("z", "must be given", ""),
    ]
