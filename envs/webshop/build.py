"""Official WebShop files in, a store out: `mh-train data webshop --items F --attributes F [--human F] --out DIR`.

How: products are read one by one, cleaned and analysed, and written in parts of some thousand (`parts.py`); the parts
are then merged into the store (`merge.py`). Everything happens in `DIR.building`, which becomes DIR in one rename.
Invariants: memory is that of one part per worker, of the vocabulary, and of asin, price and 16 bytes per goal of every
product (what is looked up by asin lies on disk); a build that was killed goes on after its last complete part; the same
input and seed give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import regex

from envs.base import EnvDataError
from envs.webshop import files
from envs.webshop.goals import ORDER_SEED
from envs.webshop.merge import merge
from envs.webshop.nouns import noun_finder
from envs.webshop.official import JsonFile
from envs.webshop.parts import write_parts
from envs.webshop.store import FORMAT, MANIFEST, Store, file_digest


def build_store(
    items: str | Path,
    attributes: str | Path,
    human: str | Path | None = None,
    *,
    out: str | Path,
    seed: int = 0,
    nouns: str = "auto",
    limit: int = 0,
    workers: int = 1,
    progress: files.Progress | None = None,
) -> Store:
    """Build the store of a catalogue and open it; a complete store of the same input is opened as it is.

    `seed` is the catalogue seed: prices of products with a price range, and price limits of goals. `nouns` is auto,
    spacy or words (`envs.webshop.nouns`). `limit` reads only the first items, as the original's `num_products` does.
    `workers` processes analyse products; the store is the same for any number of them.
    Raises `EnvDataError` for missing or broken input, and when `out` holds a store of something else.
    """
    out = Path(out)
    noun_name, _ = noun_finder(nouns)
    plan = {
        "format": FORMAT,
        "seeds": {"catalogue": seed, "goal_order": ORDER_SEED},
        "nouns": noun_name,
        "limit": limit,
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "regex": regex.__version__},
        "inputs": {
            name: _identity(path)
            for name, path in (("items", items), ("attributes", attributes), ("human", human))
            if path is not None
        },
    }
    if out.exists():
        return _existing(out, plan)
    work = _prepare(out, plan)
    tell = progress or (lambda what, done, total: None)
    read = write_parts(work, JsonFile(items), JsonFile(attributes), human, nouns, limit, tell, workers)
    counts = merge(work, seed, tell)
    manifest = {**plan, "counts": {**counts, **read.counts}, "sources": read.digests, "files": _file_list(work)}
    files.write_bytes(work / MANIFEST, json.dumps(manifest, indent=1).encode())
    work.rename(out)
    return Store(out)


def _identity(path: str | Path) -> dict[str, Any]:
    """What tells one input file from another without reading it whole."""
    source = JsonFile(path)
    with source.path.open("rb") as handle:
        start = hashlib.sha256(handle.read(1 << 20)).hexdigest()
    return {"bytes": source.size, "sha256_of_first_mib": start}


def _existing(out: Path, plan: dict[str, Any]) -> Store:
    store = Store(out)
    if any(store.manifest[key] != plan[key] for key in ("seeds", "nouns", "limit", "inputs")):
        raise EnvDataError(
            f"{out} holds a store of other input, seed or noun lists: remove it or choose another folder."
        )
    return store


def _prepare(out: Path, plan: dict[str, Any]) -> Path:
    """The working folder: what an interrupted build of the same plan left, or a fresh one."""
    work = out.with_name(out.name + ".building")
    stamp = json.dumps(plan, indent=1).encode()
    if not (work / "plan.json").is_file() or (work / "plan.json").read_bytes() != stamp:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        files.write_bytes(work / "plan.json", stamp)
    return work


def _file_list(work: Path) -> dict[str, dict[str, Any]]:
    """Remove what only the build needed; size and digest of every file that stays, flushed to disk."""
    shutil.rmtree(work / "parts")
    (work / "plan.json").unlink()
    for path in work.iterdir():
        files.flush(path)
    return {path.name: {"bytes": path.stat().st_size, "sha256": file_digest(path)} for path in sorted(work.iterdir())}
