"""Results in the layout of lm-evaluation-harness, for whatever already reads that.

Why: dashboards and comparison scripts exist for it. One task per (environment, panel, mode); the episodes of a task are
the JSON lines in `cells/<panel>.<mode>.<seed>.jsonl` beside it (first line: settings, then one episode a line).
Invariant: a pure function of `eval.json`; without dates, so that equal results are equal files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

HARNESS_FILE = "lm_eval.json"
METRICS = {"success": True, "macro": True, "score": True, "steps": False, "retrievals": None, "accepted": None}
"""What is reported, and whether higher is better (None: neither)."""


def harness(result: Mapping[str, Any], model: str) -> dict[str, Any]:
    """`eval.json` as lm-evaluation-harness writes results; `model` is the policy's name there.

    A success has the standard error of a share over the panel's tasks, other metrics "N/A", as the harness does for
    metrics without one. "0-shot" stands for "no examples in the prompt but those that the memory finds"."""
    env = result["settings"]["env"]["name"]
    tasks = {
        f"{env}_{panel}_{mode}": (panel, mode, cell)
        for panel, modes in result["results"].items()
        for mode, cell in modes.items()
    }
    return {
        "results": {name: {"alias": name, **_numbers(cell)} for name, (_, _, cell) in tasks.items()},
        "group_subtasks": {name: [] for name in tasks},
        "configs": {
            name: {
                "task": name,
                "output_type": "generate_until",
                "generation_kwargs": {"temperature": result["settings"]["temperature"]},
                "metadata": {**result["modes"][mode], "panel": panel, "panel_hash": result["panels"][panel]["hash"]},
            }
            for name, (panel, mode, _) in tasks.items()
        },
        "versions": dict.fromkeys(tasks, 1),
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {name: {k: v for k, v in METRICS.items() if v is not None} for name in tasks},
        "n-samples": {
            name: {"original": cell["tasks"], "effective": cell["episodes"]} for name, (_, _, cell) in tasks.items()
        },
        "config": {"model": "mh_train", "model_args": f"pretrained={model}", "random_seed": result["seeds"]},
        "versions_of_packages": result["versions"],
    }


def _numbers(cell: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in METRICS:
        found[f"{name},none"] = cell[name]["mean"]
        found[f"{name}_stderr,none"] = "N/A"
    share, n = cell["success"]["mean"], cell["tasks"]
    found["success_stderr,none"] = math.sqrt(share * (1 - share) / (n - 1)) if n > 1 else "N/A"
    return found
