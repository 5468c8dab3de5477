"""The command that installs an optional part here, for messages that say what to do.

Why: `pip install 'mh_train[...]'` works for neither way in which this package is installed, a clone and a wheel file.
Invariant: the command works where it is shown: in a clone with its pins, elsewhere by the extra's own requirements.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

CLONE = Path(__file__).resolve().parents[1]
NEEDS_GPU = ("vllm", "qlora", "deepspeed")


def install(extra: str) -> str:
    """The pip command that adds an extra of pyproject.toml; in a clone it is meant for the clone's folder."""
    if (CLONE / "constraints").is_dir():
        return f"pip install -e '.[{extra}]' -c constraints/{'cuda' if extra in NEEDS_GPU else 'cpu'}.txt"
    named = [text.partition(";") for text in importlib.metadata.requires("mh_train") or ()]
    wanted = [package.strip() for package, _, marker in named if f"extra == '{extra}'" in marker.replace('"', "'")]
    return f"pip install {' '.join(repr(package) for package in wanted)}"
