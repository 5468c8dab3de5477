"""The numbers of a rollout: means over its episodes, in the groups `env/ memory/ reward/ time/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev

from mh_train.agent.reward import episode_numbers
from mh_train.agent.types import Trajectory

NAMES = {
    "success": "env/success",
    "score": "env/score",
    "steps": "env/steps",
    "turns": "env/turns",
    "malformed": "env/malformed",
    "inadmissible": "env/inadmissible",
    "truncated": "env/truncated",
    "shortened": "env/shortened_prompts",
    "prompt_tokens": "env/prompt_tokens",
    "completion_tokens": "env/completion_tokens",
    "retrievals": "memory/retrievals",
    "accepted": "memory/accepted",
    "rejected": "memory/rejected",
    "empty": "memory/empty",
    "replayed": "memory/replayed",
    "reward": "reward/mean",
}
"""`episode_numbers` -> metric: each the mean per episode."""


def rollout_metrics(
    trajectories: Sequence[Trajectory], failures: Mapping[str, int], dropped: int, seconds: float
) -> dict[str, float]:
    """Means per episode, failed attempts and dropped groups of this rollout, and its wall-clock seconds."""
    counts = {"env/episodes": float(len(trajectories)), "env/failures": float(sum(failures.values()))}
    counts |= {f"env/failures_{kind}": float(count) for kind, count in sorted(failures.items())}
    counts |= {"env/dropped_groups": float(dropped), "time/rollout_s": seconds}
    if not trajectories:
        return counts
    numbers = [episode_numbers(trajectory) for trajectory in trajectories]
    counts |= {metric: fmean(each[name] for each in numbers) for name, metric in NAMES.items()}
    counts["reward/std"] = pstdev(trajectory.reward for trajectory in trajectories)
    for part in sorted({part for trajectory in trajectories for part in trajectory.reward_parts}):
        counts[f"reward/{part}"] = fmean(trajectory.reward_parts.get(part, 0.0) for trajectory in trajectories)
    counts["time/episode_s"] = fmean(trajectory.seconds for trajectory in trajectories)
    return counts
