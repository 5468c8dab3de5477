"""One HTML file out of data blocks and the page's own CSS and JavaScript.

Why: it must open from a disk, in a mail, in ten years, and show text that models wrote without ever running it.
Invariants: nothing in the file asks for anything outside of it, and its content security policy forbids that and any
script but its own; data are gzip in base64, which cannot hold markup.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

SCRIPTS = (
    "base",
    "route",
    "chart",
    "scatter",
    "overview",
    "training",
    "episodes",
    "texts",
    "episode",
    "bank",
    "record",
    "compare",
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"


def pack(value: Any) -> str:
    """JSON, gzipped, in base64; equal values give equal text. NaN is refused."""
    plain = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()
    return base64.b64encode(gzip.compress(plain, 6, mtime=0)).decode()


def page(title: str, blocks: Mapping[str, str]) -> str:
    """The whole file. `blocks` are packed data by name; the block `main` is the one the page starts with."""
    script = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    script = f'"use strict";(() => {{\n{script}\nstart();\n}})();'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = "\n".join(f'<script type="text/plain" id="data-{name}">{text}</script>' for name, text in blocks.items())
    parts = {
        "title": html.escape(title),
        "policy": html.escape(POLICY.format(digest=digest), quote=True),
        "style": _asset("report.css"),
        "data": data,
        "script": script,
    }
    text = _asset("report.html")
    for name, part in parts.items():
        text = text.replace(f"{{{{{name}}}}}", part, 1)
    return text


def _asset(name: str) -> str:
    return resources.files("mh_train.report").joinpath("assets", name).read_text(encoding="utf-8")
