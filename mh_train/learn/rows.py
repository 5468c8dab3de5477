"""Training rows: every trainable turn of a trajectory, carrying that trajectory's advantage (SPEC 3).

Why: prompts are rendered afresh each turn, so a turn - not a conversation - is what the policy is trained on.
Invariant: token ids and log-probs are the engine's own, never re-tokenised; a row has at least one completion token.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from mh_train.agent.types import Trajectory, Turn


@dataclass(frozen=True)
class Row:
    """One (prompt, completion) pair of the policy. `sampler_logprobs` (n,) in nats belong to `completion_ids` (n,)."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    advantage: float
    sampler_logprobs: tuple[float, ...]
    trajectory: str
    kind: str

    def __post_init__(self) -> None:
        if not self.prompt_ids or not self.completion_ids:
            raise ValueError(f"A row of {self.trajectory} has an empty prompt or completion; it predicts nothing.")
        if len(self.sampler_logprobs) != len(self.completion_ids):
            raise ValueError(
                f"A {self.kind} turn of {self.trajectory} has {len(self.completion_ids)} completion tokens but "
                f"{len(self.sampler_logprobs)} log-probs; the engine must return one per token."
            )

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.completion_ids)


def rows_from_trajectories(
    trajectories: Sequence[Trajectory],
    advantages: Sequence[float | Sequence[float]],
    train_reconstruct: bool = True,
) -> list[Row]:
    """All trainable turns as rows, in order. `advantages` holds one value per trajectory (all its tokens carry it), or
    one value per turn where an estimator works on steps. Empty completions make no row (SPEC 3).

    Raises `ValueError` when the two lists do not fit each other or a turn lacks log-probs.
    """
    kinds = {"act", "reconstruct"} if train_reconstruct else {"act"}
    rows: list[Row] = []
    for trajectory, advantage in zip(trajectories, advantages, strict=True):
        values = [advantage] * len(trajectory.turns) if isinstance(advantage, (int, float)) else advantage
        for turn, value in zip(trajectory.turns, values, strict=True):
            if turn.trainable and turn.kind in kinds and turn.completion_ids:
                rows.append(_row(trajectory, turn, value))
    return rows


def digest(rows: Sequence[Row]) -> int:
    """A 63-bit fingerprint of the rows, in order."""
    state = hashlib.blake2b(digest_size=8)
    for row in rows:
        state.update(array("q", (len(row.prompt_ids), *row.prompt_ids, *row.completion_ids)).tobytes())
        state.update(array("d", (row.advantage, *row.sampler_logprobs)).tobytes())
    return int.from_bytes(state.digest(), "big") >> 1


def _row(trajectory: Trajectory, turn: Turn, advantage: float) -> Row:
    return Row(turn.prompt_ids, turn.completion_ids, float(advantage), turn.logprobs, trajectory.id, turn.kind)
