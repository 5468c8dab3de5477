"""Log-probs and entropies on completion positions: right at any temperature, in any number of chunks."""

import pytest
import torch
from policies import VOCAB, make_rows, tiny_model

from mh_train.learn import logprobs
from mh_train.learn.attention import packed_attention
from mh_train.learn.logprobs import Scorer, pack


def score(model, rows, **options):
    batch = pack(rows, torch.device("cpu"), torch.float64)
    with packed_attention(model):
        return Scorer(model)(**batch.inputs(), **options)


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_logprobs_and_entropy_of_the_tempered_distribution(temperature: float):
    model, rows = tiny_model(torch.float64), make_rows(5)
    logps, entropies = score(model, rows, temperature=temperature)
    expected_logps, expected_entropies = [], []
    for row in rows:
        ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
        full = torch.log_softmax(model(ids).logits[0, len(row.prompt_ids) - 1 : -1] / temperature, -1)
        expected_logps.append(full.gather(1, torch.tensor(row.completion_ids)[:, None])[:, 0])
        expected_entropies.append(-(full.exp() * full).sum(-1))
    torch.testing.assert_close(logps, torch.cat(expected_logps), atol=1e-6, rtol=0)
    torch.testing.assert_close(entropies, torch.cat(expected_entropies), atol=1e-6, rtol=0)


@pytest.mark.parametrize("entropy_grad", [False, True])
def test_chunks_change_neither_values_nor_gradients(monkeypatch, entropy_grad: bool):
    results = []
    for elements in (2**25, 3 * VOCAB):  # all at once; three tokens a time
        monkeypatch.setattr(logprobs, "LOGITS_AT_ONCE", elements)
        model = tiny_model(torch.float64)
        logps, entropies = score(model, make_rows(6), entropy_grad=entropy_grad)
        assert entropies.requires_grad == entropy_grad
        (logps.sum() + entropies.sum()).backward()
        results.append((logps.detach(), entropies.detach(), *(p.grad for p in model.parameters())))
    for whole, chunked in zip(*results, strict=True):
        torch.testing.assert_close(chunked, whole, atol=1e-10, rtol=1e-10)


def test_a_model_that_transforms_its_logits_is_refused():
    model = tiny_model()
    model.config.final_logit_softcapping = 30.0
    with pytest.raises(ValueError, match="final_logit_softcapping"):
        Scorer(model)


def test_no_rows_make_a_filler_of_weight_zero():
    batch = pack([], torch.device("cpu"), torch.float32)
    assert batch.weight == 0.0 and batch.input_ids.shape == (1, 2) and len(batch.targets) == 1
