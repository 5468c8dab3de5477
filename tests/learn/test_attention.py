"""Packed rows cannot see each other, whatever shares their micro-batch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from policies import make_rows, tiny_model

from mh_train.learn.attention import WASTE, length_groups, packed_attention
from mh_train.learn.logprobs import Scorer, pack
from mh_train.learn.rows import Row


def scored(model, rows: list[Row], temperature: float = 1.0) -> list[torch.Tensor]:
    batch = pack(rows, torch.device("cpu"), torch.float32)
    with packed_attention(model):
        logprobs, _ = Scorer(model)(**batch.inputs(), temperature=temperature)
    return list(logprobs.split([len(row.completion_ids) for row in rows]))


def test_a_packed_row_scores_as_if_alone():
    model, rows = tiny_model(), make_rows(40)
    for row, together in zip(rows, scored(model, rows), strict=True):
        ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
        alone = torch.log_softmax(model(ids).logits[0, :-1], -1).gather(1, ids[0, 1:, None])[:, 0]
        torch.testing.assert_close(together, alone[-len(row.completion_ids) :], atol=2e-5, rtol=0)


def test_no_gradient_flows_between_rows():
    model, rows = tiny_model().train(), make_rows(12)
    hidden = []
    model.get_input_embeddings().register_forward_hook(
        lambda module, args, out: hidden.append(out.retain_grad() or out)
    )
    scored(model, rows)[4].sum().backward()
    touched = hidden[0].grad[0].abs().sum(-1) > 0
    start = sum(map(len, rows[:4]))
    assert touched[start : start + len(rows[4]) - 1].all()
    assert not touched[:start].any() and not touched[start + len(rows[4]) :].any()


def test_a_neighbours_tokens_change_nothing():
    model, rows = tiny_model(), make_rows(6)
    swapped = [Row((7,) * len(r.prompt_ids), r.completion_ids, 0.0, r.sampler_logprobs, "", "act") for r in rows]
    before, after = scored(model, rows), scored(model, [*swapped[:3], rows[3], *swapped[4:]])
    assert torch.equal(before[3], after[3]) and not torch.equal(before[2], after[2])


def test_a_sliding_window_is_kept():
    rows = make_rows(5, prompt=(20, 30))
    windowed, full = tiny_model(), tiny_model()
    for layer in windowed.model.layers:
        layer.self_attn.sliding_window = 4
    difference = [(a - b).abs().max() for a, b in zip(scored(windowed, rows), scored(full, rows), strict=True)]
    assert min(difference) > 1e-3
    row = rows[0]
    ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
    places = torch.arange(len(row))
    distance = places[:, None] - places[None]
    mask = torch.where((distance >= 0) & (distance < 4), 0.0, float("-inf"))[None, None]
    for layer in windowed.model.layers:
        layer.self_attn.sliding_window = None
    alone = torch.log_softmax(windowed(ids, attention_mask=mask).logits[0, :-1], -1).gather(1, ids[0, 1:, None])[:, 0]
    for layer in windowed.model.layers:
        layer.self_attn.sliding_window = 4
    torch.testing.assert_close(scored(windowed, rows)[0], alone[-len(row.completion_ids) :], atol=2e-5, rtol=0)


def test_the_model_generates_under_its_own_attention_afterwards():
    model = tiny_model()
    with packed_attention(model), pytest.raises(ValueError, match="boundaries"):
        model(torch.tensor([[1, 2, 3]]))
    assert model.config._attn_implementation == "sdpa"
    model(torch.tensor([[1, 2, 3]]))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=50))
def test_length_groups_hold_every_row_and_waste_little(lengths: list[int]):
    groups = length_groups(lengths)
    assert sorted(row for rows in groups for row in rows) == list(range(len(lengths)))
    for rows in groups:
        assert len(rows) * max(lengths[r] for r in rows) <= max(WASTE * sum(lengths[r] for r in rows), lengths[rows[0]])
