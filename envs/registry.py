"""Names of environments -> their classes, imported only when asked for.

Why: a run names its environment in YAML. Ours are built in; a package of yours adds one without touching this code:

    [project.entry-points."mh_train.envs"]
    my_env = "my_package.env:MyEnv"

Invariant: a name means one `module:Class` target, which is what worker processes import (`envs.worker`).
"""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points

from envs.base import TextEnv

GROUP = "mh_train.envs"
_targets = {
    "alfworld": "envs.alfworld.env:AlfworldEnv",
    "webshop": "envs.webshop.env:WebShopEnv",
    "toy": "envs.toy:ToyEnv",
}


def register(name: str, target: str) -> None:
    """Add an environment for this process: `target` is `module:Class`. Raises `ValueError` when the name is taken."""
    module, separator, attribute = target.partition(":")
    if not (module and separator and attribute):
        raise ValueError(f"The target of environment {name!r} is {target!r}; write it as 'module:Class'.")
    if _targets.setdefault(name, target) != target:
        raise ValueError(f"The environment name {name!r} is taken by {_targets[name]}; choose another name.")


def names() -> list[str]:
    """Every known environment name, sorted: built-in, registered here, and those of installed packages."""
    return sorted({*_targets, *entry_points(group=GROUP).names})


def target(name: str) -> str:
    """The `module:Class` of a name. Raises `ValueError` that lists the known names."""
    if name in _targets:
        return _targets[name]
    for point in entry_points(group=GROUP, name=name):
        return point.value
    raise ValueError(f"There is no environment {name!r}; known are {', '.join(names())}.")


def load(name: str) -> type[TextEnv]:
    """The class of a named environment. Raises `ValueError` (unknown) or `ImportError` (a package is missing)."""
    return load_target(target(name))


def load_target(target: str) -> type[TextEnv]:
    """Import a `module:Class`. Raises `ImportError` (naming what is missing) or `TypeError` (no `TextEnv`)."""
    module, _, attribute = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise ImportError(f"The environment {target} cannot be imported: {error}. Install what it needs.") from error
    except AttributeError as error:
        raise ImportError(f"The module {module} has no {attribute}; correct the environment's target.") from error
    if not (isinstance(found, type) and issubclass(found, TextEnv)):
        raise TypeError(f"{target} is not an environment: it must be a subclass of envs.base.TextEnv.")
    return found
