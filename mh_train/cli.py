"""`mh-train <stage> [key=value ...]`: the one command.

Why: each stage is one file in `mh_train/stages/` with a `main(...)`; this file only finds it, so that `--help` answers
at once and a broken optional package breaks only the stage that needs it.
Run: `mh-train --help`, `mh-train grpo experiment=quickstart --dry-run`, `mh-train grpo -m seed=0,1`.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mh_train.config import RunConfig

RUN_STAGES = {
    "data": "make the environment's data (mini games) or say how to get it",
    "sft": "cold start: supervised fine-tuning on the expert's trajectories",
    "grpo": "train with GRPO, the memory bank filling online; resumes by itself",
    "eval": "evaluate the run's policy on fixed task panels in every mode",
    "run": "data, sft, grpo and eval, one after the other",
    "stream": "a task stream with a bank that grows from nothing, several memory methods side by side",
}
TOOLS = {
    "plan": "does it fit: mh-train plan experiment=... gpus=8x80GB nodes=2",
    "compare": "several runs in one table, seeds pooled, tests paired: mh-train compare RUN RUN ...",
    "env": "hold an environment to the contract: mh-train env check NAME [option=value ...]",
    "bank": "look at the memories of a run, and edit them: mh-train bank list runs/NAME",
    "report": "one HTML file about one or more runs: mh-train report RUN [RUN ...] --out report.html",
    "watch": "write the report again whenever a run has grown: mh-train watch RUN",
    "webshop": "build a WebShop store, report how its splits overlap: mh-train webshop build --help",
    "probe": "counterfactual probes of reconstruction: mh-train probe build|run RUN",
    "audit": "memory after the fact, outcomes known: behaviour, verifier, warnings, cost: mh-train audit RUN",
    "doctor": "what is installed, what is missing, and the command that fixes it",
}


DISK = {
    errno.ENOENT: "Correct the path.",
    errno.ENOSPC: "Free some space; the same command continues.",
    errno.EDQUOT: "Free some of your quota; the same command continues.",
    errno.EROFS: "Set root= (or --out) to a place that can be written.",
    errno.EACCES: "Set root= (or --out) to a place that can be written.",
}
"""What to do when a file cannot be read or written."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `mh-train`; the exit code (0 fine, 2 wrong input, 1 failed, 130 interrupted)."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:2] == ["data", "webshop"]:
        words = ["webshop", "build", *words[2:]]
    tool = words[0] if words and words[0] in TOOLS else ""
    if not sys.stderr.isatty():  # a log keeps one line per step, not the bars of every model that is loaded or saved
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    arguments = argparse.Namespace(verbose=False) if tool else _parser().parse_intermixed_args(words)
    logging.basicConfig(
        level=logging.INFO if arguments.verbose else logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    try:
        if tool:
            return int(importlib.import_module(f"mh_train.stages.{tool}").main(words[1:]))
        return _run_stage(arguments)
    except KeyboardInterrupt:
        kept = "" if tool else " Finished updates are on disk; the same command continues from the last checkpoint."
        print(f"Interrupted.{kept}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - the one place where an error becomes a sentence
        return _explain(error, arguments.verbose)


def _run_stage(arguments: argparse.Namespace) -> int:
    from mh_train.config import compose, expand_sweep, load

    if arguments.config:
        signal.signal(signal.SIGTERM, _terminated)
        return _start(arguments.stage, load(arguments.config), here=True)
    if arguments.stage == "eval" and any(word.startswith("table=") for word in arguments.words):
        table = importlib.import_module("mh_train.stages.table")
        return int(table.main(arguments.words, arguments.dry_run))
    jobs = expand_sweep(arguments.words) if arguments.multirun else [list(arguments.words)]
    configs = [compose(job) for job in jobs]
    if arguments.multirun:
        for number, (config, job) in enumerate(zip(configs, jobs, strict=True)):
            varied = [word for word in job if not all(word in other for other in jobs)]
            config.name = f"{config.name}/{number:03d}-" + ",".join(varied)
    for config in configs:
        config.track.hub = arguments.push_to_hub or config.track.hub
    if arguments.dry_run:
        for config in configs:
            _show(config)
        return 0
    return max(_start(arguments.stage, config) for config in configs)


def _start(stage: str, config: RunConfig, here: bool = False) -> int:
    """Run a stage in this process (`here`, or when the launcher says so), or launch its processes."""
    if here or config.launcher.name == "here":
        from mh_train.run.reuse import alone

        with alone(config):
            importlib.import_module(f"mh_train.stages.{stage}").main(config)
        if config.track.hub and stage in ("grpo", "run") and os.environ.get("RANK", "0") == "0":
            importlib.import_module("mh_train.stages.hub").push(
                Path(config.root) / config.name / "model", config.track.hub
            )
        return 0
    from mh_train.run.launch import launch

    return launch(stage, config)


def _terminated(*_: object) -> None:
    raise KeyboardInterrupt


def _show(config: object) -> None:
    from mh_train.config import to_yaml
    from mh_train.config.sizes import derived_sizes

    print(to_yaml(config))  # type: ignore[arg-type]
    for name, size in derived_sizes(config).items():  # type: ignore[arg-type]
        print(f"# {name}: {size:,}")


def _explain(error: Exception, verbose: bool) -> int:
    from mh_train.config import ConfigError

    if verbose:
        logging.getLogger(__name__).exception("The stage failed.")
    told = str(error)
    if isinstance(error, OSError) and error.errno in DISK:
        told = f"{error.strerror}{f': {error.filename}' if error.filename else ''}. {DISK[error.errno]}"
    elif os.strerror(errno.ENOSPC) in told:  # how writers of other languages report it
        told = f"{told.rstrip('.')}. {DISK[errno.ENOSPC]}"
    elif not isinstance(error, (ConfigError, RuntimeError)) and not told.endswith("."):  # not a sentence of ours
        told = f"{type(error).__name__}: {error}"
    print(f"mh-train: {told}", file=sys.stderr)
    if not verbose and not isinstance(error, ConfigError):
        print("(-v shows where it happened)", file=sys.stderr)
    return 2 if isinstance(error, ConfigError) else 1


def _parser() -> argparse.ArgumentParser:
    listing = "\n".join(f"  {name:<8} {text}" for name, text in {**RUN_STAGES, **TOOLS}.items())
    parser = argparse.ArgumentParser(
        prog="mh-train",
        description="Train LLM agents that reconstruct memory instead of replaying it.",
        epilog=f"stages:\n{listing}\n\nsettings are Hydra overrides: experiment=quickstart learn.lr=1e-4 (configs/)",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("stage", choices=[*RUN_STAGES, *TOOLS], metavar="stage", help="what to do (list below)")
    parser.add_argument("words", nargs="*", help="settings, or the tool's own words")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the resolved config and the derived sizes, then stop"
    )
    parser.add_argument(
        "-m", "--multirun", action="store_true", help="one run per combination of comma-separated values"
    )
    parser.add_argument("--config", metavar="FILE", help="a resolved configuration instead of settings (launchers)")
    parser.add_argument("--push-to-hub", metavar="OWNER/NAME", help="push the final model, with its card, to the hub")
    parser.add_argument("-v", "--verbose", action="store_true", help="log more, and show where an error happened")
    return parser


if __name__ == "__main__":
    sys.exit(main())
