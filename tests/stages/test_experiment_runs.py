"""Experiments do what they say: two updates of each kind, on the toy environment with a policy of characters."""

from pathlib import Path

import pytest
from safetensors.torch import load_file
from talker import SETTINGS, make_model

from mh_train.config import compose
from mh_train.run.metrics import read_metrics
from mh_train.stages import grpo

SMALL = [
    *("env=toy", "model=tiny", "threads=1", "rollout.tasks=2", "rollout.group=3", "learn.updates=2"),
    *(
        "learn.minibatch_turns=16",
        "memory.milvus.enabled=false",
        "memory.embedder.name=hashing",
        "memory.prune.every=1",
    ),
]


@pytest.mark.parametrize(
    "name", ["memharness_alfworld_7b_lora", "memharness_webshop_1_5b", "rloo_webshop_7b", "replay_alfworld_7b"]
)
def test_two_updates(tmp_path: Path, name: str):
    config = compose([f"experiment={name}", f"root={tmp_path}", *SMALL, *SETTINGS])
    folder = tmp_path / name
    make_model(folder / "sft" / "model")
    grpo.main(config)
    rows = read_metrics(folder / "metrics.jsonl")
    before, after = (load_file(folder / place / "model.safetensors") for place in ("sft/model", "model"))
    assert [row["update"] for row in rows] == [1, 2]
    assert any(not before[key].equal(after[key]) for key in before if key in after)
    if config.memory.use.value == "none":
        assert not any(row.get("memory/retrievals") for row in rows)
    else:
        assert rows[-1]["memory/total"] > 0
    if config.memory.use.value == "replay":
        assert sum(row["memory/replayed"] for row in rows) > 0
