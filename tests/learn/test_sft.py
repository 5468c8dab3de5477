"""Cold start on completions: it learns, prompts carry no loss, seeds decide the weights, nothing stays patched."""

import copy
import random

import pytest
import torch
from accelerate import Accelerator
from policies import VOCAB, tiny_model
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from mh_train.config.schema import SftConfig
from mh_train.learn.errors import LearnError
from mh_train.learn.sft import Example, train_sft

CONFIG = SftConfig(epochs=3, lr=3e-3, batch=8, max_tokens=64)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCAB)}, unk_token="w0"))
    return PreTrainedTokenizerFast(tokenizer_object=words, eos_token="w1", pad_token="w2")


def echo_examples(count: int) -> list[Example]:
    """The completion repeats the prompt's first token and ends."""
    rng = random.Random(0)
    prompts = [tuple(rng.randrange(3, 20) for _ in range(rng.randint(2, 12))) for _ in range(count)]
    return [Example(prompt, (prompt[0], 1)) for prompt in prompts]


def test_it_learns_reports_and_repeats_bit_for_bit(tokenizer, capsys):
    examples = echo_examples(120)
    results, reports = [], []
    for _ in range(2):
        model = tiny_model(scale=1.0)
        metrics = train_sft(model, tokenizer, examples, CONFIG, seed=3, progress=lambda *report: reports.append(report))
        results.append(torch.cat([p.flatten() for p in model.parameters()]))
    assert torch.equal(*results)
    assert reports[0][2]["loss"] > 2 * metrics["sft/loss"]
    assert reports[-1][0] == reports[-1][1] == metrics["sft/steps"] == 45
    assert {"loss", "rows/s"} == set(reports[-1][2])
    assert capsys.readouterr().out == ""


def test_loss_is_the_completion_tokens_mean_and_prompts_carry_none(tokenizer):
    model, examples = tiny_model(), echo_examples(8)
    expected, tokens = 0.0, 0
    for example in examples:
        ids = torch.tensor([[*example.prompt_ids, *example.completion_ids]])
        logps = torch.log_softmax(model(ids).logits[0, :-1], -1).gather(1, ids[0, 1:, None])
        expected -= logps[-2:].sum().item()
        tokens += 2
    config = SftConfig(epochs=1, lr=1e-9, batch=8, max_tokens=64)
    assert train_sft(model, tokenizer, examples, config)["sft/loss"] == pytest.approx(expected / tokens, rel=1e-5)


def test_long_rows_are_left_out_and_counted_never_cut(tokenizer):
    examples = [*echo_examples(8), Example(tuple(range(3, 100)), (5, 1))]
    assert train_sft(tiny_model(), tokenizer, examples, SftConfig(batch=8, max_tokens=64))["sft/rows_too_long"] == 1
    with pytest.raises(LearnError, match=r"sft\.max_tokens=4"):
        train_sft(tiny_model(), tokenizer, examples, SftConfig(max_tokens=4))


def test_the_model_comes_back_as_it_was_wrapped(tokenizer):
    Accelerator(cpu=True)  # the trainer's own accelerator must not clash with the run's
    model = tiny_model()
    train_sft(model, tokenizer, echo_examples(8), SftConfig(epochs=1, lr=1e-2, batch=8))
    assert model.config._attn_implementation == "sdpa" and not model.training
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.lm_head.weight.zero_()
    ids = torch.tensor([[3, 4, 5]])
    assert not torch.equal(twin(ids).logits, model(ids).logits)
    assert Accelerator(cpu=True).device.type == "cpu"
