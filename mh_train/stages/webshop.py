"""Build a WebShop store from the official files, or report how its splits overlap.

Run: `mh-train webshop build --items items_shuffle.json --attributes items_ins_v2.json --out data/webshop`,
`mh-train webshop overlap data/webshop`. `mh-train data webshop ...` is the same as `webshop build ...`.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from envs.webshop.build import build_store
from envs.webshop.splits import RULES, split_overlap
from envs.webshop.store import Store
from mh_train.run.progress import Bar, bar


def main(words: Sequence[str]) -> int:
    """`build` or `overlap`."""
    asked = _parser().parse_args(words)
    if asked.command == "overlap":
        print(json.dumps(split_overlap(Store(asked.store), asked.goals, asked.rule), indent=1))
        return 0
    with bar("webshop store", 0, every_s=5) as progress:
        store = build_store(
            asked.items,
            asked.attributes,
            asked.human,
            out=asked.out,
            seed=asked.seed,
            nouns=asked.nouns,
            limit=asked.limit,
            workers=asked.workers,
            progress=lambda what, done, total: _show(progress, what, done, total),
        )
    print(f"store     {asked.out}: " + ", ".join(f"{name} {count}" for name, count in store.manifest["counts"].items()))
    return 0


def _show(progress: Bar, what: str, done: int, total: int) -> None:
    progress.total = total
    progress.advance({"doing": what}, steps=done - progress.done)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mh-train webshop")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="official JSON files (plain or gzip) -> a memory-mapped store")
    build.add_argument("--items", type=Path, required=True)
    build.add_argument("--attributes", type=Path, required=True)
    build.add_argument("--human", type=Path)
    build.add_argument("--out", type=Path, required=True)
    build.add_argument("--seed", type=int, default=0, help="catalogue seed: prices and price limits")
    build.add_argument(
        "--nouns", default="auto", choices=["auto", "spacy", "words"], help="where title nouns come from"
    )
    build.add_argument("--limit", type=int, default=0, help="only the first items")
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    build.add_argument("--workers", type=int, default=cpus, help="processes that analyse products (default: all CPUs)")
    overlap = commands.add_parser("overlap", help="products and goals that splits share")
    overlap.add_argument("store", type=Path)
    overlap.add_argument("--goals", default="synthetic", choices=["synthetic", "human"])
    overlap.add_argument("--rule", default="canonical", choices=RULES)
    return parser
