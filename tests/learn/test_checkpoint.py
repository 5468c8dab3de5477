"""A checkpoint is the whole run: resumed numbers are bit-equal, damaged folders are refused, old ones leave."""

import copy
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from policies import make_rows, tiny_model

from mh_train.config.schema import CheckpointConfig, LearnConfig, LoraConfig
from mh_train.learn.checkpoint import (
    CheckpointError,
    latest,
    open_checkpoint,
    restore,
    save,
)
from mh_train.learn.errors import LearnError
from mh_train.learn.learner import Learner
from mh_train.learn.lora import add_lora

CONFIG = LearnConfig(lr=1e-3, minibatch_turns=6, token_budget=200, kl=0.02)
KEEP = CheckpointConfig(keep_last=2)
TIMES = ("time/score_s", "time/optimize_s")


def new_learner(accelerator, lora: bool = False) -> Learner:
    model = add_lora(tiny_model(), LoraConfig(enabled=lora, r=4, dropout=0.1), seed=1)
    return Learner(model, CONFIG, accelerator, seed=2)


def run(learner: Learner, updates: range) -> list[dict[str, float]]:
    history = []
    for update in updates:
        metrics = learner.update(make_rows(12, seed=update), update)
        noise = random.random() + float(np.random.rand()) + float(torch.rand(()))
        history.append({**{k: v for k, v in metrics.items() if k not in TIMES}, "noise": noise})
    return history


def weights(learner: Learner) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in learner.model.parameters()])


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora_with_dropout"])
def test_a_resumed_run_is_bit_equal(tmp_path: Path, accelerator, lora: bool):
    straight = new_learner(accelerator, lora)
    run(straight, range(1, 3))
    save(tmp_path, 2, straight, {"cursor": [3, 1]}, KEEP, {"bank": lambda folder: (folder / "b.txt").write_text("x")})
    expected = run(straight, range(3, 5))
    torch.manual_seed(99), random.seed(99), np.random.seed(99)
    resumed = new_learner(accelerator, lora)
    checkpoint = latest(tmp_path)
    assert checkpoint.update == 2 and (checkpoint.path / "bank" / "b.txt").read_text() == "x"
    assert restore(checkpoint, resumed) == {"cursor": [3, 1]}
    assert run(resumed, range(3, 5)) == expected
    assert torch.equal(weights(resumed), weights(straight))
    assert resumed.optimizer_steps == straight.optimizer_steps == 8


def test_old_checkpoints_leave_except_every_nth_and_pinned(tmp_path: Path, accelerator):
    learner = new_learner(accelerator)
    for update in range(1, 8):
        save(tmp_path, update, learner, {}, CheckpointConfig(keep_last=2, keep_every=3), pinned=(2,))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"update-00000{n}" for n in (2, 3, 6, 7)]


def test_saving_an_update_again_replaces_it(tmp_path: Path, accelerator):
    learner = new_learner(accelerator)
    save(tmp_path, 1, learner, {"n": 1}, KEEP)
    save(tmp_path, 1, learner, {"n": 2}, KEEP)
    assert latest(tmp_path).state == {"n": 2}


@pytest.mark.parametrize("damage", ["flip", "cut", "missing", "manifest"])
def test_a_damaged_checkpoint_is_skipped_and_named(tmp_path: Path, accelerator, damage: str, caplog):
    learner = new_learner(accelerator)
    for update in (1, 2):
        save(tmp_path, update, learner, {}, KEEP)
    victim = tmp_path / "update-000002" / ("manifest.json" if damage == "manifest" else "learner.pt")
    content = victim.read_bytes()
    middle = len(content) // 2
    if damage == "missing":
        victim.unlink()
    elif damage == "flip":
        victim.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    else:
        victim.write_bytes(content[:middle])
    found = latest(tmp_path)
    assert found.update == 1 and "update-000002 is damaged" in found.skipped[0]
    assert "update-000002 is damaged" in caplog.text
    (tmp_path / "update-000001" / "state.json").unlink()
    with pytest.raises(CheckpointError, match=r"No checkpoint .* is intact"):
        latest(tmp_path)


def test_no_checkpoint_is_no_error(tmp_path: Path):
    assert latest(tmp_path / "never") is None


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path, accelerator):
    save(tmp_path, 1, new_learner(accelerator), {}, KEEP)
    with pytest.raises(LearnError, match="another model"):
        restore(open_checkpoint(tmp_path / "update-000001"), new_learner(accelerator, lora=True))


def test_the_reference_stays_the_start_policy_after_a_resume(tmp_path: Path, accelerator):
    learner = new_learner(accelerator)
    start = copy.deepcopy(learner.reference.state_dict())
    run(learner, range(1, 2))
    save(tmp_path, 1, learner, {}, KEEP)
    resumed = new_learner(accelerator)
    restore(latest(tmp_path), resumed)
    assert all(torch.equal(value, start[name]) for name, value in resumed.reference.state_dict().items())
