"""CPU time of a step and a reset: the stock environment (TextWorld's PddlEnv under AlfredTWEnv's wrappers) and ours.

Both play the same generated floor-plan games with the same random admissible actions in this process. Run:
`python tests/bench/bench_alfworld.py [GAMES] [STEPS]` (default 6 games of all types, 12 steps each: a minute).
"""

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from envs.alfworld.env import AlfworldEnv
from envs.alfworld.game import Games
from envs.alfworld.mini import generate


class Clock:
    """CPU seconds by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def __call__(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """`call(*arguments)`, timed under `name`."""
        start = time.process_time()
        result = call(*arguments)
        self.spent[name] = self.spent.get(name, 0.0) + time.process_time() - start
        return result


def stock_environment() -> Any:
    """What AlfredTWEnv.init_env builds for one game at a time."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos
    from textworld.gym.envs.textworld_batch import _make_env

    infos = textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile"])
    return _make_env(infos, 50, [AlfredDemangler(shuffle=False), AlfredInfos])


def main(games: int = 6, steps: int = 12) -> None:
    """Play, and print milliseconds and ratios."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ALFWORLD_DATA"] = folder  # importing alfworld creates this folder
        data, cache = str(Path(folder, "data")), str(Path(folder, "cache"))
        generate(data, seed=0, train=games, seen=1, unseen=1)
        stock, clock = stock_environment(), Clock()
        for task in AlfworldEnv.tasks("train", data=data):
            path = task.data["game"]
            ours = AlfworldEnv(data=data, cache=cache)
            clock("stock reset", lambda path=path: (stock.load(path), stock.reset()))
            clock("our reset, game never seen", ours.reset, task)
            Games.shared.cache_clear()
            ours = AlfworldEnv(data=data, cache=cache)
            clock("our reset, game on disk", ours.reset, task)
            seen = clock("our reset, game in memory", ours.reset, task)
            rng = random.Random(task.id)
            for _ in range(steps):
                action = rng.choice(seen.admissible)
                text, *_ = clock("stock step", stock.step, action)
                seen = clock("our step, first play", ours.step, action)
                if seen.text != text:
                    raise AssertionError(
                        f"{task.id}: {action!r} gives {seen.text!r}, the stock environment says {text!r}"
                    )
            rng, seen = random.Random(task.id), ours.reset(task)
            for _ in range(steps):
                seen = clock("our step, game played before", ours.step, rng.choice(seen.admissible))
    for name, spent in clock.spent.items():
        kind = "step" if "step" in name else "reset"
        each = spent / games / (steps if kind == "step" else 1)
        ratio = clock.spent[f"stock {kind}"] / spent
        print(f"{name:30} {1000 * each:9.2f} ms CPU{'' if name.startswith('stock') else f'   {ratio:7.0f} x cheaper'}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
