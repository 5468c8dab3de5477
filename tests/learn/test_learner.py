"""The update against a plain loop: one row at a time, all logits, nothing shared with the learner's code."""

import copy
from dataclasses import replace

import pytest
import torch
from policies import make_rows, tiny_model

from mh_train.config.schema import LearnConfig
from mh_train.learn.learner import Learner
from mh_train.learn.rows import Row

TEMPERATURE = 0.7
CONFIG = LearnConfig(lr=0.003, minibatch_turns=8, token_budget=120, kl=0.05, grad_clip=1e9)


def row_logprobs(model, row: Row) -> torch.Tensor:
    ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
    logits = model(ids, use_cache=False).logits[0].double() / TEMPERATURE
    logps = torch.log_softmax(logits, -1)[:-1].gather(1, ids[0, 1:, None])[:, 0]
    return logps[len(row.prompt_ids) - 1 :]


def plain_loss(model, old_model, ref_model, rows: list[Row], config: LearnConfig) -> torch.Tensor:
    """SPEC 3 as it is written, token by token."""
    total, tokens = torch.zeros((), dtype=torch.float64), 0
    for row in rows:
        new = row_logprobs(model, row)
        with torch.no_grad():
            old, ref = row_logprobs(old_model, row), row_logprobs(ref_model, row)
        for t in range(len(new)):
            r, a = torch.exp(new[t] - old[t]), row.advantage
            gain = torch.minimum(r * a, r.clamp(1 - config.clip_low, 1 + config.clip_high) * a)
            if config.dual_clip and a < 0:
                gain = torch.maximum(gain, torch.tensor(config.dual_clip * a, dtype=torch.float64))
            if config.importance == "token":
                gain = gain * min(float(torch.exp(old[t] - row.sampler_logprobs[t])), config.importance_cap)
            d = ref[t] - new[t]
            total = total - gain + config.kl * (torch.exp(d) - d - 1)
        tokens += len(new)
    return total / tokens


class Recorder:
    """Keeps what each optimizer step saw: the weights and their gradients."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.weights, self.grads = learner, [], []
        optimizer = getattr(learner.optimizer, "optimizer", learner.optimizer)
        optimizer.register_step_pre_hook(self.before_step)

    def before_step(self, *_):
        named = list(self.learner.model.named_parameters())
        self.weights.append({name: p.detach().clone() for name, p in named})
        self.grads.append({name: p.grad.clone() for name, p in named})


def recorded_update(config: LearnConfig, rows: list[Row], accelerator) -> tuple[Recorder, dict, object, object]:
    """The start policy is the reference; other weights are loaded then, so that pi, pi_old and pi_ref all differ."""
    start, old = tiny_model(torch.float64, 0), tiny_model(torch.float64, 1)
    learner = Learner(copy.deepcopy(start), config, accelerator, seed=5)
    learner.model.load_state_dict(old.state_dict())
    recorder = Recorder(learner)
    return recorder, learner.update(rows, 3, TEMPERATURE), start, old


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        replace(CONFIG, kl=0.0, dual_clip=1.5, clip_high=0.28),
        replace(CONFIG, importance="token", token_budget=1),
    ],
    ids=["kl", "dual_clip", "importance"],
)
def test_loss_and_gradients_equal_the_plain_loop(config: LearnConfig, accelerator):
    rows = make_rows(16)
    recorder, metrics, start, old = recorded_update(config, rows, accelerator)
    assert metrics["learn/optimizer_steps"] == 2 and metrics["learn/clip_fraction"] > 0.01
    losses = []
    for step, members in enumerate(minibatches_of(recorder.learner, rows)):
        model = copy.deepcopy(old)
        model.load_state_dict(recorder.weights[step], strict=False)
        loss = plain_loss(model, old, start, members, config)
        loss.backward()
        losses.append((loss.item(), sum(len(row.completion_ids) for row in members)))
        expected = {name: p.grad for name, p in model.named_parameters()}
        scale = torch.cat([g.flatten() for g in expected.values()]).norm()
        difference = torch.cat([(recorder.grads[step][n] - g).flatten() for n, g in expected.items()]).norm()
        assert difference / scale < 1e-6
    mean = sum(loss * n for loss, n in losses) / sum(n for _, n in losses)
    assert metrics["learn/loss"] == pytest.approx(mean, rel=1e-6)


def minibatches_of(learner: Learner, rows: list[Row]) -> list[list[Row]]:
    """The rows of each minibatch of update 3, from the learner's own shuffle."""
    return [[row for members in part.bins for row in members] for part in learner._minibatches(rows, 3)]
