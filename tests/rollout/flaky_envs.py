"""A toy whose tasks can be told to fail: by raising, by killing its process, by hanging; always or a few times."""

import os
import time
from pathlib import Path
from typing import Any, ClassVar

from envs.base import Observation, Task
from envs.toy import ToyEnv


class Flaky(ToyEnv):
    """Options: `bad`, task id -> how it fails at its first step; `folder` with a file `<task>.<n>` per failure left."""

    name: ClassVar[str] = "flaky"

    def __init__(self, bad: dict[str, str], folder: str = "") -> None:
        self.bad, self.folder = bad, folder

    def step(self, action: str) -> Observation:
        how = self.bad.get(self._task.id)
        if how and self._unlucky():
            match how:
                case "raise":
                    raise RuntimeError("the game broke")
                case "die":
                    os._exit(7)
                case "hang":
                    time.sleep(60)
        return super().step(action)

    def _unlucky(self) -> bool:
        if not self.folder:
            return True
        for left in Path(self.folder).glob(f"{self._task.id}.*"):
            left.unlink()
            return True
        return False

    @classmethod
    def tasks(cls, split: str, **options: Any) -> list[Task]:
        return ToyEnv.tasks(split)
