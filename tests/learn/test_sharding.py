"""A model divided over two processes by `fully_shard` learns what the whole one learns, and is saved whole."""

from pathlib import Path

import torch
from accelerate import Accelerator
from policies import make_rows, tiny_model
from test_distributed import CONFIG, on_two_ranks
from torch.distributed.fsdp import fully_shard

from mh_train.config.schema import CheckpointConfig
from mh_train.learn.checkpoint import latest, restore, save
from mh_train.learn.learner import Learner
from mh_train.learn.sharding import whole_weights


class Sharding(Accelerator):
    """Divides the model as Accelerate does on GPUs; on a CPU it falls back to DDP without a word."""

    is_fsdp2 = True

    def prepare(self, scorer, optimizer):
        for layer in scorer.policy.model.layers:
            fully_shard(layer)
        fully_shard(scorer)
        optimizer.param_groups[0]["params"] = list(scorer.parameters())
        return scorer, optimizer


def test_a_divided_model_learns_what_the_whole_one_learns(tmp_path: Path, accelerator):
    rows = make_rows(12)

    def work(ranks: Accelerator, folder: Path) -> None:
        learner = Learner(tiny_model(torch.float64), CONFIG, Sharding(cpu=True), seed=1)
        metrics = [learner.update(rows, 0, 0.7)]
        frozen = next(learner.reference.parameters())
        assert learner.sharded
        assert frozen.to_local().numel() < frozen.numel()
        save(folder / "checkpoints", 1, learner, {}, CheckpointConfig())
        resumed = Learner(tiny_model(torch.float64), CONFIG, Sharding(cpu=True), seed=1)
        restore(latest(folder / "checkpoints"), resumed)
        metrics += [each.update(rows, 1, 0.7) for each in (learner, resumed)]
        weights = whole_weights(learner.model, ranks.is_main_process)
        torch.save({"metrics": metrics, "weights": weights}, folder / f"{ranks.process_index}.pt")

    on_two_ranks(work, tmp_path)
    alone = Learner(tiny_model(torch.float64), CONFIG, accelerator, seed=1)
    metrics = [alone.update(rows, update, 0.7) for update in range(2)]
    for rank in range(2):
        divided = torch.load(tmp_path / f"{rank}.pt")
        for mine, theirs in zip(divided["metrics"], [*metrics, metrics[-1]], strict=True):
            steady = [name for name in theirs if not name.startswith("time/")]
            got, expected = (torch.tensor([m[n] for n in steady], dtype=torch.float64) for m in (mine, theirs))
            torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-9)
        whole = dict(alone.model.named_parameters()) if rank == 0 else {}
        torch.testing.assert_close(divided["weights"], whole, rtol=1e-6, atol=1e-9)
