"""R(tau) = R_outcome + 0.1 R_format (SPEC 2), and what an episode did in numbers.

Why: the format mark must reward what the protocol asks for: asking and then acting earns all of it, an action beside a
query does not. Invariant: a pure function of trajectory and config; the same episode always gets the same reward.
"""

from __future__ import annotations

import unicodedata

from mh_train.agent.parse import without_actions
from mh_train.agent.types import Trajectory
from mh_train.config.schema import RewardConfig

_SIGNS = "\N{FEMININE ORDINAL INDICATOR}\N{MASCULINE ORDINAL INDICATOR}\N{MICRO SIGN}\N{OHM SIGN}\N{KELVIN SIGN}"


def score_trajectory(trajectory: Trajectory, config: RewardConfig, memory_available: bool) -> float:
    """Set `reward` and `reward_parts` of a finished episode; the reward.

    R_format is the mean of up to three parts, each 0 or 1 over the whole episode: `protocol` (every act and reconstruct
    turn well formed), `retrieval` (between min and max retrievals; left out unless `memory_available`, that is unless
    the policy itself may ask: `EpisodeSpec.may_ask`), `english` (see `is_english`; left out when switched off). What an
    external reconstructor wrote is not the policy's and is not judged.
    """
    own = ("act",) if trajectory.memory_mode == "external" else ("act", "reconstruct")
    turns = [turn for turn in trajectory.turns if turn.kind in own]
    parts = {"protocol": float(all(turn.well_formed for turn in turns))}
    if memory_available:
        parts["retrieval"] = float(config.min_retrievals <= len(trajectory.retrievals) <= config.max_retrievals)
    if config.english:
        parts["english"] = float(all(is_english(turn.text) for turn in turns))
    outcome = config.success if trajectory.won else 0.0
    style = sum(parts.values()) / len(parts)
    trajectory.reward = outcome + config.format_weight * style
    trajectory.reward_parts = {"outcome": outcome, "format": style, **parts}
    return trajectory.reward


def is_english(text: str) -> bool:
    """Whether every letter of a completion is Latin; the inside of action blocks is not judged.

    Letter: Unicode category L*. Latin: its Unicode name says LATIN, or it is a sign that English text uses (ordinals,
    micro, ohm, kelvin). So CJK, Kana, Hangul, Cyrillic, Greek, Arabic and every other script fail; digits, punctuation
    and emoji never do.
    """
    if text.isascii():
        return True
    return all(_latin(letter) for letter in set(without_actions(text)) if unicodedata.category(letter)[0] == "L")


def _latin(letter: str) -> bool:
    return letter in _SIGNS or "LATIN" in unicodedata.name(letter, "")


def episode_numbers(trajectory: Trajectory) -> dict[str, float]:
    """What the episode did, as numbers that can be averaged over episodes."""
    outcomes = [retrieval.outcome for retrieval in trajectory.retrievals]
    return {
        "success": float(trajectory.won),
        "score": trajectory.score,
        "reward": trajectory.reward,
        "steps": float(len(trajectory.steps)),
        "turns": float(len(trajectory.turns)),
        "malformed": float(sum(step.malformed for step in trajectory.steps)),
        "inadmissible": float(sum(step.inadmissible for step in trajectory.steps)),
        "retrievals": float(len(outcomes)),
        "accepted": float(outcomes.count("accepted")),
        "rejected": float(outcomes.count("rejected")),
        "empty": float(outcomes.count("empty")),
        "replayed": float(outcomes.count("replayed")),
        "truncated": float(trajectory.truncated),
        "shortened": float(trajectory.shortened_prompts),
        "prompt_tokens": float(sum(len(turn.prompt_ids) for turn in trajectory.turns)),
        "completion_tokens": float(sum(len(turn.completion_ids) for turn in trajectory.turns)),
    }
