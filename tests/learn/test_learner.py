"""The update against a plain loop: one row at a time, all logits, nothing shared with the learner's code."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from policies import make_rows, tiny_model

from mh_train.config.schema import LearnConfig
from mh_train.learn.errors import LearnError
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


def final_weights(rows: list[Row], config: LearnConfig, accelerator, dtype=torch.float64) -> tuple[torch.Tensor, dict]:
    learner = Learner(tiny_model(dtype), config, accelerator, seed=5)
    metrics = learner.update(rows, 3, TEMPERATURE)
    return torch.cat([p.detach().flatten() for p in learner.model.parameters()]), metrics


def test_packing_changes_no_number(accelerator):
    """From one row a micro-batch to all at once, over four optimizer steps."""
    rows = make_rows(30)
    results = [final_weights(rows, replace(CONFIG, token_budget=budget), accelerator) for budget in (1, 120, 100_000)]
    for weights, metrics in results[1:]:
        torch.testing.assert_close(weights, results[0][0], rtol=1e-6, atol=1e-8)
        for name, value in metrics.items():
            assert name.startswith("time/") or value == pytest.approx(results[0][1][name], rel=1e-5, abs=1e-9), name


def test_silent_rows_count_in_the_mean_but_are_not_computed(accelerator):
    """Rows of advantage 0 have no gradient without KL and entropy; leaving them out of the mean would change it."""
    rows = [replace(row, advantage=0.0) if i % 3 else row for i, row in enumerate(make_rows(18))]
    config = replace(CONFIG, kl=0.0, minibatch_turns=18)
    weights, metrics = final_weights(rows, config, accelerator)
    almost = [replace(row, advantage=row.advantage or 1e-300) for row in rows]  # computed, yet weightless
    torch.testing.assert_close(weights, final_weights(almost, config, accelerator)[0], rtol=1e-9, atol=1e-12)
    computed_only = final_weights([row for row in rows if row.advantage], config, accelerator)[1]
    share = sum(len(r.completion_ids) for r in rows if r.advantage) / sum(len(r.completion_ids) for r in rows)
    assert metrics["learn/loss"] == pytest.approx(share * computed_only["learn/loss"])


def test_no_signal_takes_no_step(accelerator):
    rows = [replace(row, advantage=0.0) for row in make_rows(9)]
    before = torch.cat([p.flatten() for p in tiny_model(torch.float64).parameters()])
    for nothing in (rows, []):
        weights, metrics = final_weights(nothing, replace(CONFIG, kl=0.0), accelerator)
        assert metrics["learn/optimizer_steps"] == 0 and torch.equal(weights, before)


@pytest.mark.parametrize("count", [1, 2], ids=["one_row", "a_huge_and_a_small_row"])
def test_a_single_row_and_a_row_longer_than_the_budget(accelerator, count: int):
    rows = [*make_rows(1, prompt=(600, 600)), *make_rows(1, seed=1)][:count]
    _, metrics = final_weights(rows, CONFIG, accelerator)
    assert metrics["learn/rows"] == count and metrics["learn/optimizer_steps"] == 1
    assert metrics["learn/tokens"] == sum(map(len, rows))


def test_an_entropy_bonus_raises_entropy(accelerator):
    rows = [replace(row, advantage=0.0) for row in make_rows(8)]
    config = replace(CONFIG, kl=0.0, entropy=1.0)
    learner = Learner(tiny_model(), config, accelerator)
    entropies = [learner.update(rows, update)["learn/entropy"] for update in range(3)]
    assert entropies[0] < entropies[1] < entropies[2]


def test_the_policy_moves_towards_good_completions(accelerator):
    good, bad = make_rows(2, completion=(4, 6))
    rows = [replace(good, advantage=1.0), replace(bad, advantage=-1.0)]
    learner = Learner(tiny_model(torch.float64), replace(CONFIG, kl=0.0), accelerator)
    before = [row_logprobs(learner.model, row).sum().item() for row in rows]
    for update in range(3):
        learner.update(rows, update, TEMPERATURE)
    after = [row_logprobs(learner.model, row).sum().item() for row in rows]
    assert after[0] > before[0] + 1 and after[1] < before[1] - 1


def test_mismatch_is_measured_against_the_sampler(accelerator):
    rows = make_rows(4)
    exact = [
        replace(row, sampler_logprobs=tuple(row_logprobs(tiny_model(torch.float64), row).tolist())) for row in rows
    ]
    off = [replace(row, sampler_logprobs=tuple(value + 0.1 for value in row.sampler_logprobs)) for row in exact]
    assert final_weights(exact, CONFIG, accelerator)[1]["learn/mismatch_kl"] == pytest.approx(0, abs=1e-9)
    k3_of_a_tenth = 0.1 + math.exp(-0.1) - 1
    assert final_weights(off, CONFIG, accelerator)[1]["learn/mismatch_kl"] == pytest.approx(k3_of_a_tenth, rel=1e-4)


def test_a_gradient_that_is_not_finite_is_not_applied(accelerator):
    rows = make_rows(4)
    learner = Learner(tiny_model(), CONFIG, accelerator)
    before = [p.detach().clone() for p in learner.model.parameters()]
    with pytest.raises(LearnError, match=r"step 1 is not finite; the step was not taken.*learn\.lr"):
        learner.update([*rows[:3], replace(rows[3], advantage=math.inf)], 0)
    assert all(torch.equal(a, b) for a, b in zip(before, learner.model.parameters(), strict=True))
    assert learner.model.config._attn_implementation == "sdpa"
    assert math.isfinite(learner.update(rows, 1)["learn/loss"])


def test_bfloat16_models_train_float32_weights_at_the_papers_learning_rate(accelerator):
    model = tiny_model(torch.bfloat16, scale=1.0)
    learner = Learner(model, LearnConfig(minibatch_turns=8, token_budget=500), accelerator)
    before = [p.detach().clone() for p in model.parameters()]
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert {p.dtype for p in learner.reference.parameters()} == {torch.bfloat16}
    learner.update(make_rows(8), 0)
    moved = [(a - b).abs().max().item() for a, b in zip(before, model.parameters(), strict=True)]
    assert max(moved) == pytest.approx(1e-6, rel=0.1)
    with pytest.raises(LearnError, match="float16 overflows"):
        Learner(tiny_model(torch.float16), CONFIG, accelerator)


def test_every_optimizer_step_of_a_bfloat16_update_starts_from_the_weights_of_the_step_before(accelerator):
    config = LearnConfig(lr=0.1, minibatch_turns=4, token_budget=500, kl=0.0)
    metrics = Learner(tiny_model(torch.bfloat16, scale=1.0), config, accelerator).update(make_rows(8), 0)
    assert metrics["learn/optimizer_steps"] == 2
    assert metrics["learn/ratio_max"] > 1.01  # the second step's policy is no longer pi_old


def test_gradient_checkpointing_changes_no_number(accelerator):
    rows, results = make_rows(8), []
    for on in (False, True):
        model = tiny_model(torch.float64)
        if on:
            model.gradient_checkpointing_enable()
        learner = Learner(model, CONFIG, accelerator, seed=5)
        learner.update(rows, 0)
        results.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-12)
