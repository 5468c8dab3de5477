"""What is installed and usable here, what is missing, and the command that fixes it; fit for a bug report, no secrets.

Run: `mh-train doctor`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from mh_train.run.folder import environment

OPTIONAL = {
    "textworld": ("ALFWorld", "pip install 'mh_train[alfworld]'"),
    "vllm": ("vLLM generation", "pip install 'mh_train[vllm]'"),
    "FlagEmbedding": ("BGE-M3 embeddings", "pip install 'mh_train[embed]'"),
    "sentence_transformers": ("sentence-transformers embeddings", "pip install 'mh_train[embed]'"),
    "wandb": ("Weights & Biases", "pip install 'mh_train[track]'"),
}
NEEDED_DISK_GB = 5


def main(words: Sequence[str]) -> int:
    """Print every finding; 0 when nothing that a CPU run needs is missing, 1 otherwise."""
    facts = environment()
    print(f"platform  {facts['platform']}, {facts['cores']} cores")
    for name, version in facts["versions"].items():  # type: ignore[attr-defined]
        print(f"package   {name} {version}")
    findings = [*_devices(), *_packages(), *_data(), *_disk()]
    for mark, text in findings:
        print(f"{mark:<9} {text}")
    return 1 if any(mark == "MISSING" for mark, _ in findings) else 0


def _devices() -> Iterator[tuple[str, str]]:
    import torch

    if not torch.cuda.is_available():
        yield "ok", f"torch runs on the CPU with {torch.get_num_threads()} threads; no CUDA device"
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        yield "ok", f"cuda:{index} {properties.name}, {properties.total_memory / 2**30:.0f} GiB"


def _packages() -> Iterator[tuple[str, str]]:
    for module, (purpose, fix) in OPTIONAL.items():
        if importlib.util.find_spec(module) is None:
            yield "optional", f"{purpose} is not installed: {fix}"


def _data() -> Iterator[tuple[str, str]]:
    root = Path(os.environ.get("ALFWORLD_DATA", "~/.cache/alfworld")).expanduser()
    if any(root.glob("json_2.1.*")):
        yield "ok", "ALFWorld games found"
    else:
        yield "optional", "no ALFWorld games: run alfworld-download, or set ALFWORLD_DATA (the mini games need neither)"


def _disk() -> Iterator[tuple[str, str]]:
    free = shutil.disk_usage(".").free / 2**30
    yield ("ok" if free > NEEDED_DISK_GB else "MISSING"), f"{free:.0f} GiB free here; a run wants {NEEDED_DISK_GB}"
    try:
        with tempfile.NamedTemporaryFile(dir="."):
            yield "ok", "this folder can be written"
    except OSError as error:
        yield "MISSING", f"this folder cannot be written ({error}): start runs elsewhere or set root="
