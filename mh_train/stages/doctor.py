"""What is installed and usable here, what is missing, and the command that fixes it; fit for a bug report, no secrets.

Why: most reports of trouble are about a machine, not about code. Invariants: nothing outside a temporary folder is
written, nothing is asked of the network; environment variables are looked at but never printed.
Run: `mh-train doctor`, or `mh-train doctor runs/NAME` to try the Milvus server and the data of that run too.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.metadata
import importlib.util
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

from mh_train.config import RunConfig
from mh_train.config.schema import EngineConfig, MilvusConfig, ModelConfig, TinyConfig
from mh_train.extras import CLONE, install
from mh_train.run.folder import RunFolder, environment


class Finding(NamedTuple):
    """`mark`: ok, optional (runs work without it) or MISSING; `text`: what it is, and the command that fixes it."""

    mark: str
    text: str


OPTIONAL = {
    "textworld": ("ALFWorld", "alfworld"),
    "vllm": ("vLLM generation", "vllm"),
    "FlagEmbedding": ("BGE-M3 embeddings", "embed"),
    "sentence_transformers": ("sentence-transformers embeddings", "embed"),
    "wandb": ("Weights & Biases", "track"),
}
"""Module -> (what it is for, the extra of pyproject.toml that brings it)."""
NEEDED_DISK_GB = 5
PORTS = {19530: "a Milvus server", 8000: "a vLLM server", 29500: "training over several processes"}


def main(words: Sequence[str]) -> int:
    """Print every finding; 0 when nothing that a CPU run needs is missing, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="mh-train doctor", description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="?", type=Path, help="a run folder whose Milvus server and data are tried too")
    given = parser.parse_args(words)
    config = RunFolder.existing(given.run)[1] if given.run else None
    facts = environment()
    print(f"platform  {facts['platform']}, {facts['cores']} cores")
    for name, version in facts["versions"].items():  # type: ignore[attr-defined]
        print(f"package   {name} {version}")
    marks = []
    for check in (_devices, _packages, lambda: _data(config), _disk, lambda: _milvus(config), _ports, _first_token):
        for finding in check():
            marks.append(finding.mark)
            print(f"{finding.mark:<9} {finding.text}", flush=True)
    return 1 if "MISSING" in marks else 0


def _devices() -> Iterator[Finding]:
    seconds = _timed(lambda: importlib.import_module("torch"))
    import torch

    yield Finding("ok", f"torch was imported in {seconds:.1f} s")
    if not torch.cuda.is_available():
        yield Finding("ok", f"torch runs on the CPU with {torch.get_num_threads()} threads; no CUDA device")
        if torch.version.cuda is None and shutil.which("nvidia-smi"):
            fix = "pip install torch -c constraints/cuda.txt"
            yield Finding("optional", f"there is an NVIDIA driver, but this torch is built without CUDA: {fix}")
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        text = f"cuda:{index} {properties.name}, {properties.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"
        yield Finding("ok", text)


def _packages() -> Iterator[Finding]:
    for text in importlib.metadata.requires("mh_train") or ():
        needed = Requirement(text)
        if needed.marker is None and not _fits(needed):
            yield Finding("MISSING", f"{needed} is needed and not what is installed: pip install '{needed}'")
    for module, (purpose, extra) in OPTIONAL.items():
        if importlib.util.find_spec(module) is None:
            cpu_clone = extra == "vllm" and (CLONE / "scripts").is_dir() and not shutil.which("nvidia-smi")
            fix = "bash scripts/setup.sh --vllm" if cpu_clone else install(extra)
            yield Finding("optional", f"{purpose} cannot be used: {fix}")
    if not any(map(shutil.which, ("c++", "g++", "clang++"))):
        yield Finding("optional", "no C++ compiler, which ALFWorld's planner is built with: apt-get install g++")


def _fits(needed: Requirement) -> bool:
    try:
        return needed.specifier.contains(importlib.metadata.version(needed.name), prereleases=True)
    except importlib.metadata.PackageNotFoundError:
        return False


def _data(config: RunConfig | None) -> Iterator[Finding]:
    root = Path(os.environ.get("ALFWORLD_DATA", "~/.cache/alfworld")).expanduser()
    if any(root.glob("json_2.1.*")):
        yield Finding("ok", "ALFWorld games found")
    else:
        text = "no ALFWorld games: run alfworld-download, or set ALFWORLD_DATA (the mini games need neither)"
        yield Finding("optional", text)
    if config is not None and config.data.root:
        found = any(Path(config.data.root).glob("*"))
        text = "found" if found else f"missing: mh-train data name={config.name}, with the run's other settings"
        yield Finding("ok" if found else "MISSING", f"the data of run {config.name}: {text}")


def _disk() -> Iterator[Finding]:
    free = shutil.disk_usage(".").free / 2**30
    enough = free > NEEDED_DISK_GB
    fix = "" if enough else "; free some, or set root= to another disk"
    yield Finding("ok" if enough else "MISSING", f"{free:.0f} GiB free here; a run wants {NEEDED_DISK_GB}{fix}")
    try:
        with tempfile.NamedTemporaryFile(dir="."):
            yield Finding("ok", "this folder can be written")
    except OSError as error:
        text = f"this folder cannot be written ({error.strerror}): start runs elsewhere or set root="
        yield Finding("MISSING", text)


def _milvus(config: RunConfig | None) -> Iterator[Finding]:
    """Mirror one record and look for it: in Milvus Lite, and at the server of the run where it names one."""
    from mh_train.memory.records import MemoryStoreError

    tried = {"Milvus Lite": MilvusConfig()}
    if config is not None and config.memory.milvus.enabled and config.memory.milvus.uri:
        tried["the run's Milvus server"] = config.memory.milvus
    for name, settings in tried.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                seconds = _timed(lambda s=settings, f=folder: _open_mirror(s, Path(f)))  # type: ignore[misc]
                yield Finding("ok", f"{name} answers after {seconds:.1f} s")
            except (MemoryStoreError, ImportError) as error:
                told = str(error).replace(settings.uri or folder, "(address)")
                yield Finding("optional", f"{name}: {told}")


def _open_mirror(config: MilvusConfig, folder: Path) -> None:
    """Open a mirror; Lite, which nobody else uses, also takes a record."""
    import numpy as np

    from mh_train.memory.embed import Fingerprint
    from mh_train.memory.milvus import MilvusMirror
    from mh_train.memory.records import Record

    mirror = MilvusMirror(config, folder, Fingerprint("doctor", 4, ""), "doctor")
    try:
        if mirror.lite_path is not None:
            record = Record("doctor", "toy", "pick", "a memory")
            mirror.refill([record], {record.id: np.ones(4, dtype=np.float32)})
    finally:
        mirror.close()


def _ports() -> Iterator[Finding]:
    for port, purpose in PORTS.items():
        with socket.socket() as probe:
            probe.settimeout(0.5)
            taken = probe.connect_ex(("127.0.0.1", port)) == 0
        yield Finding("ok", f"port {port} ({purpose}) is {'in use' if taken else 'free'}")


def _first_token() -> Iterator[Finding]:
    """Build the smallest policy and let it say one token: the imports, torch and the engine work together."""
    loading = _timed(lambda: importlib.import_module("mh_train.engine.tiny"))
    with tempfile.TemporaryDirectory() as folder:
        speaking = _timed(lambda: asyncio.run(_speak(Path(folder))))
    told = f"the first token of a new tiny policy came after {speaking:.1f} s"
    yield Finding("ok", f"transformers was imported in {loading:.1f} s; {told}")


async def _speak(folder: Path) -> None:
    from mh_train.engine.base import Request, Sampling
    from mh_train.engine.factory import make_engine
    from mh_train.engine.load import load_model
    from mh_train.engine.tiny import build_tiny

    tiny = TinyConfig(hidden=32, layers=1, heads=1, intermediate=32, context=64, phrases=[])
    path = build_tiny(tiny, ["the doctor listens"], 0, folder)
    engine = make_engine(EngineConfig(), *load_model(ModelConfig(path=str(path), dtype="float32")))
    engine.expect(1)
    await engine.generate(Request((3, 4), Sampling(max_tokens=1)))


def _timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started
