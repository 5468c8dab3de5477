"""Make the data of the run's environment, when it has a maker (the mini environments); say how to get it otherwise.

Invariant: makers leave data that exists already with the same settings alone.
Run: `mh-train data experiment=quickstart`.
"""

from __future__ import annotations

import importlib

from mh_train.config import ConfigError, RunConfig
from mh_train.run.progress import say


def main(config: RunConfig) -> None:
    """Run the maker named by `data.maker` and tell what is there now."""
    data = config.data
    if not data.maker:
        say(f"env={config.env.name} has no data to make; docs/data.md says how to get it.")
        return
    module, _, name = data.maker.partition(":")
    try:
        make = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"data.maker={data.maker} cannot be imported ({error}); give module:function.") from error
    summary = make(data.root, **data.options)
    say(
        f"data     {data.root}: "
        + ", ".join(f"{key} {value}" for key, value in summary.items() if not isinstance(value, dict))
    )
