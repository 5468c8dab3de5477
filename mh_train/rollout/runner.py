"""The rollout of one training update: G episodes per task, by the policy, some groups without a bank (SPEC 3).

Why: a policy that always finds a full bank forgets how to act without; with `memory.dropout` a share of groups meets
an empty bank. Invariant: which groups these are follows from (run seed, update) alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from envs.base import Task
from envs.pool import EnvPool
from mh_train.agent.loop import EpisodeSpec
from mh_train.agent.prompts import Prompts
from mh_train.agent.speaker import Speaker
from mh_train.agent.types import MemoryHit, MemoryQuery, MemoryReader, Trajectory
from mh_train.config.schema import RunConfig
from mh_train.engine.base import Engine, noise_key
from mh_train.rollout.play import RolloutResult, play
from mh_train.rollout.rules import training_rules


class EmptyMemory:
    """A bank with nothing in it."""

    async def retrieve(self, query: MemoryQuery) -> Sequence[MemoryHit]:
        """No hits."""
        return ()


async def rollout(
    config: RunConfig,
    tasks: Sequence[Task],
    pool: EnvPool,
    speaker: Speaker,
    engine: Engine,
    prompts: Prompts,
    memory: MemoryReader | None,
    update: int,
    on_episode: Callable[[Trajectory], None] = lambda trajectory: None,
    share: tuple[int, int] = (0, 1),
) -> RolloutResult:
    """Play `rollout.group` episodes of every task with rewards marked; see `play.play` for what comes back.

    `extra["empty_bank"]` marks the episodes of groups that memory dropout left without a bank; `extra["weights"]` are
    the engine's versions at an episode's start and end (with `rollout.max_staleness`).
    """
    began: dict[str, int] = {}

    def voice(spec: EpisodeSpec) -> Speaker:
        began[spec.id] = engine.version
        return speaker

    def note(trajectory: Trajectory) -> None:
        if config.rollout.max_staleness:
            trajectory.extra["weights"] = [began[trajectory.id], engine.version]
        on_episode(trajectory)

    without = dropout_groups(len(tasks), config.memory.dropout, (config.seed, update)) if memory is not None else set()
    result = await play(
        training_rules(config, update),
        tasks,
        pool,
        prompts,
        voice=voice,
        memory=lambda spec: EmptyMemory() if spec.group in without else memory,
        expect=engine.expect,
        on_episode=note,
        share=share,
    )
    for trajectory in result.trajectories:
        if trajectory.group in without:
            trajectory.extra["empty_bank"] = True
    result.metrics["memory/empty_bank_groups"] = float(len(without))
    return result


def dropout_groups(groups: int, share: float, seed_parts: tuple[int, ...]) -> set[int]:
    """Which of the groups meet an empty bank: `share` of them, rounded at random so that the mean is exact."""
    chance = noise_key(*seed_parts, "dropout") / 2**64
    order = sorted(range(groups), key=lambda group: noise_key(*seed_parts, "dropout", group))
    return set(order[: int(groups * share + chance)])
