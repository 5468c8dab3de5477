"""Environments that misbehave on purpose: what the pool and the checker must survive."""

import os
import signal
import time
from typing import Any, ClassVar

from envs.base import Observation, Task
from envs.toy import ToyEnv


class Moody(ToyEnv):
    """Does what the action says: hang, die, raise, leave; counts how many objects its process made."""

    name: ClassVar[str] = "moody"
    made = 0

    def __init__(self, **options: Any) -> None:
        Moody.made += 1
        self.serial = Moody.made

    def reset(self, task: Task) -> Observation:
        self.step(str(task.data.get("on_reset", "")))
        return super().reset(task)

    def step(self, action: str) -> Observation:
        if action.startswith("sleep "):
            time.sleep(float(action.split()[1]))
        match action:
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "leave":
                raise SystemExit(3)
            case "raise":
                raise KeyError("lost page")
            case "nothing":
                return None  # type: ignore[return-value]
            case "who":
                return Observation(f"{os.getpid()} {self.serial}", ("who",), "say who you are")
            case "modules":
                import sys

                return Observation(" ".join(sys.modules), ("who",), "say what is imported")
            case "closure":
                return Observation("x", ("who",), "carry what cannot travel", info={"f": lambda: 0})
        return super().step(action) if hasattr(self, "_task") else Observation("x", ("look",), "y")


class Clinging(ToyEnv):
    """Will not be closed: neither asked nor by SIGTERM."""

    name: ClassVar[str] = "clinging"

    def __init__(self, **options: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def close(self) -> None:
        time.sleep(60)


class Unready(ToyEnv):
    """Cannot be constructed."""

    def __init__(self, **options: Any) -> None:
        raise FileNotFoundError("no games here")


class Careless(ToyEnv):
    """Breaks most rules of the contract."""

    name: ClassVar[str] = "careless"
    task_types: ClassVar[tuple[str, ...]] = ("unlock",)
    calls = 0

    @classmethod
    def tasks(cls, split: str, **options: Any) -> list[Task]:
        return [Task("same", "careless", split, "unlock", {"colour": "red", "room": "kitchen", "pair": (1, 2)})] * 2

    def reset(self, task: Task) -> Observation:
        Careless.calls += 1
        return Observation(f"call {Careless.calls}", ["look"], "", score=7)  # type: ignore[arg-type]

    def step(self, action: str) -> Observation:
        if action == "sing to the moon 42":
            raise RuntimeError("I do not know that")
        return Observation("fine", ("look",), "changed goal")
