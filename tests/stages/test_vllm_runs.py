"""Every large experiment with vLLM, for real: two updates each on the toy environment, by its cold-started policy.

One vLLM serves all runs, since starting it costs as much as several of them; every run pushes its own weights before it
generates, and the probe compares them.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree

import pytest
from safetensors.torch import load_file

from mh_train.config import compose
from mh_train.config.compose import config_dir
from mh_train.config.schema import LoraConfig
from mh_train.engine import vllm
from mh_train.engine.codec import HFCodec
from mh_train.engine.load import load_tokenizer
from mh_train.engine.serving import Serving
from mh_train.engine.vllm_pump import Pump
from mh_train.run.metrics import read_metrics
from mh_train.stages import grpo

pytestmark = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed: docs/engines.md tells how")
LARGE = [
    path.stem
    for path in (config_dir() / "experiment").glob("*.yaml")
    if path.stem.endswith(("_7b", "_3b", "_1_5b", "_lora"))
]
LARGE.sort(key=lambda name: (not name.endswith("_lora"), name))  # adapters first: they need the base that vLLM loaded
SMALL = [
    *("env=toy", "model=tiny", "engine=vllm", "threads=1", "prompt.preset=compact", "env.horizon=2"),
    *("env.prompt_tokens=512", "env.completion_tokens=32", "rollout.tasks=1", "rollout.group=2", "learn.updates=2"),
    *("learn.minibatch_turns=4", "memory.milvus.enabled=false", "memory.embedder.name=hashing"),
    *("memory.prune.every=1", "memory.distill.max_tokens=32", "learn.token_budget=2048"),
]


class Kept(Pump):
    """A pump that outlives the engine that closes it."""

    def close(self) -> None:
        """Unload the run's adapters."""
        self.submit(lambda engine: [engine.remove_lora(number) for number in engine.list_loras()]).result()


@pytest.fixture(scope="module", autouse=True)
def one_vllm(trained: Path) -> Iterator[None]:
    """Every `VllmEngine` of this module steps the same vLLM."""
    path = trained / "sft" / "model"
    serving = Serving(str(path), 1024, lora=LoraConfig(enabled=True))
    first = vllm.VllmEngine(serving, HFCodec(load_tokenizer(path)), max_batch=8)
    pump = Kept(first._build)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vllm, "Pump", lambda build: pump)
        yield
    Pump.close(pump)


@pytest.mark.parametrize("name", LARGE)
def test_two_updates_with_vllm(name: str, trained: Path, tmp_path: Path):
    config = compose([f"experiment={name}", f"root={tmp_path}", *SMALL])
    folder = tmp_path / name
    copytree(trained / "sft" / "model", folder / "sft" / "model")
    grpo.main(config)
    rows = read_metrics(folder / "metrics.jsonl")
    assert [row["update"] for row in rows] == [1, 2]
    assert all(row["engine/probe_gap"] < 1e-5 and row["learn/mismatch_kl"] < 1e-4 for row in rows)
    before, after = (load_file(folder / place / "model.safetensors") for place in ("sft/model", "model"))
    moved = any(not before[key].equal(after[key]) for key in before)
    assert moved == any(row["learn/grad_norm"] > 0 for row in rows)
    asked = sum(row.get("memory/retrievals", 0) for row in rows)
    assert (asked > 0) == (config.memory.use.value != "none")
