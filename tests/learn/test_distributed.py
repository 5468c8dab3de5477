"""Two processes (gloo) give the numbers of one: same losses, same gradients, same weights, resumable, never hanging."""

import multiprocessing
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from policies import make_rows, tiny_model

from mh_train.config.schema import CheckpointConfig, LearnConfig
from mh_train.learn.checkpoint import CheckpointError, latest, restore, save
from mh_train.learn.errors import LearnError
from mh_train.learn.learner import Learner

CONFIG = LearnConfig(lr=0.003, minibatch_turns=7, token_budget=90, kl=0.05)


def on_two_ranks(work: Callable[[Accelerator, Path], None], folder: Path) -> None:
    """Run `work` in two forked processes joined by gloo; both must succeed within minutes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def rank_main(rank: int) -> None:
        os.environ.update(
            RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
        )
        AcceleratorState._reset_state()
        PartialState._reset_state()
        work(Accelerator(cpu=True), folder)

    context = multiprocessing.get_context("fork")
    children = [context.Process(target=rank_main, args=(rank,), daemon=True) for rank in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(200)
    codes = [child.exitcode for child in children]
    for child in children:
        child.kill()
    assert codes == [0, 0]


def train(accelerator: Accelerator, rows: list, updates: range = range(2)) -> dict[str, torch.Tensor]:
    learner = Learner(tiny_model(torch.float64), CONFIG, accelerator, seed=1)
    metrics = [learner.update(rows, update, 0.7) for update in updates]
    names = [name for name in metrics[0] if not name.startswith("time/")]
    weights = torch.cat([p.detach().flatten() for p in learner.model.parameters()])
    return {"metrics": torch.tensor([[m[n] for n in names] for m in metrics]).double(), "weights": weights}


@pytest.mark.parametrize("count", [26, 1], ids=["many_rows", "one_row_leaves_a_rank_with_an_empty_bin"])
def test_two_processes_equal_one(tmp_path: Path, accelerator, count: int):
    rows = make_rows(count)

    def work(ranks: Accelerator, folder: Path) -> None:
        assert ranks.num_processes == 2
        torch.save(train(ranks, rows), folder / f"{ranks.process_index}.pt")

    on_two_ranks(work, tmp_path)
    alone = train(accelerator, rows)
    for rank in range(2):
        together = torch.load(tmp_path / f"{rank}.pt")
        torch.testing.assert_close(together["metrics"], alone["metrics"], rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(together["weights"], alone["weights"], rtol=1e-6, atol=1e-9)


def test_two_ranks_resume_bit_for_bit_and_one_rank_may_not(tmp_path: Path, accelerator):
    def work(ranks: Accelerator, folder: Path) -> None:
        straight = Learner(tiny_model(), CONFIG, ranks, seed=1)
        straight.update(make_rows(14), 1)
        save(folder, 1, straight, {}, CheckpointConfig())
        straight.update(make_rows(14, seed=1), 2)
        resumed = Learner(tiny_model(), CONFIG, ranks, seed=1)
        restore(latest(folder), resumed)
        resumed.update(make_rows(14, seed=1), 2)
        pairs = zip(straight.model.parameters(), resumed.model.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)

    on_two_ranks(work, tmp_path)
    with pytest.raises(CheckpointError, match="written by 2 processes"):
        restore(latest(tmp_path), Learner(tiny_model(), CONFIG, accelerator))


def test_different_rows_on_two_ranks_are_an_error_not_a_hang(tmp_path: Path):
    def work(ranks: Accelerator, folder: Path) -> None:
        learner = Learner(tiny_model(), CONFIG, ranks)
        with pytest.raises(LearnError, match="broadcast the rollout of rank 0"):
            learner.update(make_rows(8 + ranks.process_index), 1)

    on_two_ranks(work, tmp_path)
