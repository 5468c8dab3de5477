"""`module:name` in a setting -> the object, so that a run can use code of yours without touching this package.

Why: an engine or an estimator of your own is one function or class; it needs no registry, only an importable module (an
installed package, or a file in a folder on PYTHONPATH).
"""

from __future__ import annotations

import importlib
from typing import Any


def load_named(target: str, setting: str) -> Any:
    """The object that `module:name` names. Raises `ValueError`, naming the setting, when it cannot be imported."""
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{setting}={target} cannot be imported ({error}); install its package or set PYTHONPATH."
        ) from error
