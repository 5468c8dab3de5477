"""Which turns become rows, and with which advantage."""

import pytest

from mh_train.agent.types import Trajectory, Turn
from mh_train.learn.rows import Row, digest, rows_from_trajectories


def turn(kind: str, completion: tuple[int, ...] = (4, 5), **options) -> Turn:
    return Turn(kind, 0, (1, 2, 3), completion, (-0.5,) * len(completion), "", **options)


def trajectory(turns: list[Turn]) -> Trajectory:
    return Trajectory("t", "toy", "train", "task", "type", "goal", 0, 0, turns=turns)


EPISODE = trajectory(
    [
        turn("act"),
        turn("reconstruct"),
        turn("act", trainable=False),
        turn("act", completion=()),
        turn("distill"),
        turn("verify"),
    ]
)


def test_every_trainable_turn_carries_the_trajectorys_advantage():
    rows = rows_from_trajectories([EPISODE], [0.7])
    assert [(row.kind, row.advantage) for row in rows] == [("act", 0.7), ("reconstruct", 0.7)]
    assert rows[0] == Row((1, 2, 3), (4, 5), 0.7, (-0.5, -0.5), "t", "act")


def test_reconstruct_turns_are_a_choice():
    assert [r.kind for r in rows_from_trajectories([EPISODE], [1.0], train_reconstruct=False)] == ["act"]


def test_an_estimator_may_give_one_advantage_per_turn():
    rows = rows_from_trajectories([EPISODE], [[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]])
    assert [row.advantage for row in rows] == [0.1, 0.2]


def test_a_turn_without_its_logprobs_is_an_error():
    broken = trajectory([Turn("act", 0, (1,), (4, 5), (-0.5,), "")])
    with pytest.raises(ValueError, match="one per token"):
        rows_from_trajectories([broken], [1.0])
    with pytest.raises(ValueError):
        rows_from_trajectories([EPISODE], [1.0, 2.0])


def test_the_digest_sees_order_tokens_and_advantages():
    episode = trajectory([turn("act"), turn("act", (9,))])
    rows, other = rows_from_trajectories([episode], [0.7]), rows_from_trajectories([episode], [0.8])
    assert digest(rows) == digest(list(rows)) >= 0
    assert len({digest(rows), digest(rows[::-1]), digest(other), digest(rows[:1])}) == 4
