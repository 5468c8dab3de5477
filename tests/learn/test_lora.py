"""LoRA: the reference is the base model, only the adapter is trained, updates match the plain objective."""

import pytest
import torch
from policies import make_rows, tiny_model

from mh_train.config.schema import LearnConfig, LoraConfig
from mh_train.learn.learner import Learner
from mh_train.learn.lora import add_lora, base_model, has_lora

LORA = LoraConfig(enabled=True, r=4, alpha=8)
CONFIG = LearnConfig(lr=0.01, minibatch_turns=4, token_budget=200, kl=0.5)


def test_off_means_unwrapped():
    model = tiny_model()
    assert add_lora(model, LoraConfig()) is model and not has_lora(model) and base_model(model) is model


def test_a_fresh_adapter_changes_nothing_and_is_drawn_from_its_seed():
    ids = torch.tensor([[3, 4, 5, 6]])
    state = torch.get_rng_state()
    first, again, other = (add_lora(tiny_model(), LORA, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first(ids).logits, tiny_model()(ids).logits)
    weights = [torch.cat([p.flatten() for p in m.parameters() if p.requires_grad]) for m in (first, again, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_only_the_adapter_moves_and_the_reference_stays_the_base(accelerator):
    model, rows = add_lora(tiny_model(), LORA), make_rows(8)
    learner = Learner(model, CONFIG, accelerator)
    assert learner.reference is None
    assert learner.update(rows, 0)["learn/kl"] == pytest.approx(0, abs=1e-2)
    assert learner.update(rows, 1)["learn/kl"] > 1e-3, "the adapter moved away from the base"
    ids = torch.tensor([[3, 4, 5, 6]])
    base = tiny_model()(ids).logits
    with model.disable_adapter():
        assert torch.equal(model(ids).logits, base)
    assert not torch.equal(model(ids).logits, base)
    assert len(learner.state_dict()["weights"]) == 2 * 7 * 2  # A and B of seven projections in two layers


def test_a_target_that_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match="nowhere"):
        add_lora(tiny_model(), LoraConfig(enabled=True, target_modules=["nowhere"]))
