"""What the tests of the stages share."""

from pathlib import Path

from envs.toy import ToyEnv


def overrides(root: Path, *more: str) -> list[str]:
    """The toy experiment in a folder of its own."""
    return ["experiment=toy", f"root={root}", f"evaluate.panels=[{ToyEnv.splits[-1]}]", *more]
