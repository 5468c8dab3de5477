"""What may enter a report: numbers that JSON knows, texts of bounded length, settings without secrets.

Why: a report is mailed around, and what it shows was written by models and environments. Invariant: nothing here
changes what a text says, it only cuts it with a note; secrets never leave the run folder.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

LONGEST = 20_000
"""Characters of one text that a report shows."""
SECRET = re.compile(r"(^|_)(token|secret|password|api_?key|key)$", re.IGNORECASE)
LOGIN = re.compile(r"(?<=://)[^/@\s]+@")
HIDDEN = "(hidden)"


def clip(text: object, longest: int = LONGEST) -> str:
    """The text, or its beginning and a note of how much is left out."""
    told = text if isinstance(text, str) else str(text)
    if len(told) <= longest:
        return told
    return f"{told[:longest]} … [{len(told) - longest:,} more characters are in the run folder]"


def without_secrets(value: Any, name: str = "") -> Any:
    """Plain settings with the values of secret keys, and logins inside addresses, hidden; infinities as words."""
    if isinstance(value, Mapping):
        return {str(key): without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [without_secrets(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str) and value:
        return HIDDEN if SECRET.search(name) else LOGIN.sub("", value)
    return value


def number(value: Any, digits: int = 6) -> float | int | None:
    """A number to so many significant digits; None for what is none, or not finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.{digits}g}")
