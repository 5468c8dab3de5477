"""Plays a generated game's walkthrough through the engine, as proof that it can be won.

Why: a plan derived from the placement trusts this package's idea of the engine; this asks the engine itself.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from envs.alfworld.engine import Engine
from envs.alfworld.game import Games


@cache
def _engine() -> Engine:
    return Engine()


def plays(game_file: Path) -> int:
    """The number of steps in which the game's own walkthrough wins it. Raises ValueError when it does not."""
    plan = json.loads(game_file.read_text(encoding="utf-8"))["walkthrough"]
    turn = _engine().start(Games(None).get(str(game_file)))
    for command in plan:
        turn = _engine().step(command)
        if not turn.accepted:
            raise ValueError(f"{game_file}: the engine refuses {command!r} of the walkthrough; the generator is wrong")
    if not turn.won:
        raise ValueError(f"{game_file}: the walkthrough does not win; the generator is wrong")
    return len(plan)
