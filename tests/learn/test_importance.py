"""Importance correction of tokens that another policy drew: nothing, truncated tokens, masked turns."""

import math

import pytest
import torch

from mh_train.config.schema import LearnConfig
from mh_train.learn.loss import importance

OLD = torch.tensor([-1.0, -2.0, -1.0, -0.5, -3.0])
SAMPLER = torch.tensor([-1.0, -3.0, -0.2, -1.9, -1.2])  # log-ratios 0, 1 | -0.8 | 1.4, -1.8
TURNS = torch.tensor([0, 0, 1, 2, 2])


def weights(kind: str, cap: float = 2.0) -> list[float]:
    return importance(OLD, SAMPLER, TURNS, LearnConfig(importance=kind, importance_cap=cap)).tolist()


def test_none_weighs_every_token_alike():
    assert weights("none") == [1.0] * 5


def test_token_truncates_the_ratio_from_above():
    assert weights("token") == pytest.approx([1.0, 2.0, math.exp(-0.8), 2.0, math.exp(-1.8)])


def test_turn_masks_whole_turns_by_their_mean_log_ratio():
    assert weights("turn") == [1, 1, 0, 1, 1]  # means 0.5, -0.8, -0.2 against log 2 = 0.69
    assert weights("turn", cap=1.5) == [0, 0, 0, 1, 1]
    assert weights("turn", cap=3.0) == [1, 1, 1, 1, 1]
