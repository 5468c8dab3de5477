"""Killed and failing saves: whatever was finished stays, whatever was not never looks finished."""

import multiprocessing
import os
import resource
import signal
import time
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from transformers import Qwen2Config, Qwen2ForCausalLM

from mh_train.config.schema import CheckpointConfig, LearnConfig
from mh_train.learn.checkpoint import CheckpointError, latest, save
from mh_train.learn.learner import Learner

KEEP = CheckpointConfig(keep_last=2)
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def learner() -> Learner:
    torch.set_num_threads(1)
    model = Qwen2ForCausalLM(
        Qwen2Config(vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2)
    )
    return Learner(model, LearnConfig(kl=0.0), Accelerator(cpu=True))


def in_child(work, *arguments) -> int:
    """Run in a forked process; its exit code (negative: the signal that ended it)."""
    child = FORK.Process(target=work, args=arguments)
    child.start()
    child.join()
    return child.exitcode


def keep(folder: Path, update: int, learner: Learner, writers=None) -> None:
    save(folder, update, learner, {"update": update}, KEEP, writers)


def die(folder: Path) -> None:
    (folder / "half").write_text("a")
    os.kill(os.getpid(), signal.SIGKILL)


def test_sigkill_inside_a_save_keeps_the_finished_checkpoint(tmp_path: Path, learner: Learner):
    keep(tmp_path, 1, learner)
    assert in_child(keep, tmp_path, 2, learner, {"bank": die}) == -signal.SIGKILL
    assert (tmp_path / ".update-000002.tmp" / "bank" / "half").exists(), "the kill came before the save was under way"
    assert latest(tmp_path).update == 1
    keep(tmp_path, 2, learner)
    assert latest(tmp_path).update == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["update-000001", "update-000002"]


def test_sigkill_at_any_moment_leaves_only_intact_checkpoints(tmp_path: Path, learner: Learner):
    def save_for_ever(start: int) -> None:
        for update in range(start, start + 1000):
            keep(tmp_path, update, learner)

    newest = 0
    for attempt in range(8):
        child = FORK.Process(target=save_for_ever, args=(newest + 1,))
        child.start()
        while not (tmp_path / f"update-{newest + 1:06d}").exists():
            time.sleep(0.001)
        time.sleep(0.003 * attempt)
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        found = latest(tmp_path)
        assert found.skipped == () and found.update > newest and found.state == {"update": found.update}
        newest = found.update


def test_a_full_disk_is_one_sentence_and_costs_no_finished_checkpoint(tmp_path: Path, learner: Learner):
    """A file-size limit makes the real write calls fail half-way, as a full disk does."""
    keep(tmp_path, 1, learner)

    def save_without_space() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        with pytest.raises(CheckpointError, match=r"update-000002 could not be written .*free some space"):
            keep(tmp_path, 2, learner)

    assert in_child(save_without_space) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["update-000001"]
    assert latest(tmp_path).update == 1
