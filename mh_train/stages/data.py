"""Make the data of the run's environment, when it has a maker (the mini environments); say how to get it otherwise.

Invariant: data that exists already with the same settings is left alone.
Run: `mh-train data experiment=quickstart`.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

from mh_train.config import ConfigError, RunConfig
from mh_train.files import write_json
from mh_train.run.progress import say


def main(config: RunConfig) -> None:
    """Run the maker named by `data.maker` once per set of options; the stamp beside the data remembers which."""
    data = config.data
    if not data.maker:
        say(f"env={config.env.name} has no data to make; docs/data.md says how to get it.")
        return
    stamp = Path(data.root) / "made.json"
    wanted = {"maker": data.maker, "options": data.options}
    if stamp.is_file() and json.loads(stamp.read_text())["wanted"] == wanted:
        say(f"data     {data.root} is there")
        return
    module, _, name = data.maker.partition(":")
    try:
        make = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"data.maker={data.maker} cannot be imported ({error}); give module:function.") from error
    summary = make(data.root, **data.options)
    write_json(stamp, {"wanted": wanted, "summary": summary})
    say(
        f"data     {data.root}: "
        + ", ".join(f"{key} {value}" for key, value in summary.items() if not isinstance(value, dict))
    )
