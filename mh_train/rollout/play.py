"""Plays groups of episodes: one coroutine per running episode, over the environment pool and whoever speaks.

Why: lock-step rollouts wait for the slowest episode at every step and generate for finished ones; here each advances on
its own and the engine batches whatever is waiting. A bad episode is data, not a crash.
Invariants: every episode gives a trajectory or is counted as failed; a group is complete or dropped whole; results
are in (group, episode) order; `expect` counts exactly the coroutines that may still speak, so an engine that waits for
all of them never waits for nobody; noise keys name (seed parts, task, episode, turn): scheduling changes no sample.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from envs.base import Observation, Task
from envs.pool import EnvFailure, EnvPool, Slot
from mh_train.agent.loop import EpisodeSpec, run_episode
from mh_train.agent.prompts import Prompts
from mh_train.agent.reward import score_trajectory
from mh_train.agent.speaker import Speaker
from mh_train.agent.types import MemoryReader, Trajectory
from mh_train.rollout.metrics import rollout_metrics
from mh_train.rollout.panels import RolloutError
from mh_train.rollout.rules import Rules

log = logging.getLogger(__name__)

BLAMELESS_RETRIES = 20
"""Fresh starts, beside `Rules.retries`, of an episode whose worker was broken by somebody else."""

Voice = Callable[[EpisodeSpec], Speaker]
"""Who speaks in an episode; asked anew for every attempt."""
Memory = Callable[[EpisodeSpec], MemoryReader | None]
"""What an episode can read."""


@dataclass(frozen=True)
class DroppedGroup:
    """A group that is missing from the result, and the failure that cost it."""

    group: int
    task_id: str
    kind: str
    message: str


@dataclass
class RolloutResult:
    """Complete groups only, in (group, episode) order; `failures` counts every failed attempt by kind."""

    trajectories: list[Trajectory]
    dropped: list[DroppedGroup]
    failures: dict[str, int]
    metrics: dict[str, float]


async def play(
    rules: Rules,
    tasks: Sequence[Task],
    pool: EnvPool,
    prompts: Prompts,
    voice: Voice,
    memory: Memory,
    expect: Callable[[int], None] = lambda callers: None,
    on_episode: Callable[[Trajectory], None] = lambda trajectory: None,
    share: tuple[int, int] = (0, 1),
) -> RolloutResult:
    """Play `rules.group` episodes of every task and mark their rewards.

    `expect` is the engine's: told whenever the number of coroutines that may still speak changes. `on_episode` hears
    every finished episode, in order of completion. Of several processes, `share` = (rank, processes) plays the groups
    g with g mod processes = rank; `merge` makes one result of all shares. Raises `RolloutError` when not one group
    came through (of a share: `merge` does).
    """
    started = time.perf_counter()
    groups = [_Group(index, task) for index, task in enumerate(tasks)]
    rollout = _Rollout(rules, groups, share, pool, prompts, voice, memory, on_episode)
    await rollout.run(expect)
    result = rollout.result(time.perf_counter() - started)
    return result if share[1] > 1 else merge([result])


def merge(shares: Sequence[RolloutResult]) -> RolloutResult:
    """The shares of all processes as one rollout. Raises `RolloutError` when not one group came through."""
    trajectories = sorted((t for share in shares for t in share.trajectories), key=lambda t: (t.group, t.episode))
    dropped = sorted((d for share in shares for d in share.dropped), key=lambda d: d.group)
    if dropped and not trajectories:
        first = dropped[0]
        raise RolloutError(
            f"Every group failed; the first one, task {first.task_id}: {first.message} "
            "Try the environment alone: mh-train env check."
        )
    failures = sum((Counter(share.failures) for share in shares), Counter[str]())
    seconds = max(share.metrics["time/rollout_s"] for share in shares)
    metrics = shares[0].metrics | rollout_metrics(trajectories, failures, len(dropped), seconds)
    return RolloutResult(trajectories, dropped, dict(failures), metrics)


class _GroupLost(Exception):
    """A sibling failed for good: the group will be dropped, so nobody plays on."""


@dataclass
class _Group:
    index: int
    task: Task
    trajectories: dict[int, Trajectory] = field(default_factory=dict)
    lost: EnvFailure | None = None


@dataclass
class _SlotEnv:
    """A slot with its task: what the episode loop sees."""

    slot: Slot
    group: _Group

    async def reset(self) -> Observation:
        return await self.slot.reset(self.group.task)

    async def step(self, action: str) -> Observation:
        if self.group.lost is not None:
            raise _GroupLost
        return await self.slot.step(action)


@dataclass
class _Rollout:
    rules: Rules
    groups: list[_Group]
    share: tuple[int, int]
    pool: EnvPool
    prompts: Prompts
    voice: Voice
    memory: Memory
    on_episode: Callable[[Trajectory], None]
    failures: Counter[str] = field(default_factory=Counter)

    async def run(self, expect: Callable[[int], None]) -> None:
        """Play everything with at most `concurrency` coroutines, each taking the next episode when it is done with one.

        A coroutine that goes on to its next episode stays counted, so `expect` never dips between two episodes.
        """
        waiting = deque(self._specs())
        live = min(self.rules.concurrency or len(waiting), len(waiting))

        async def work() -> None:
            nonlocal live
            try:
                while waiting:
                    await self._episode(*waiting.popleft())
            finally:
                live -= 1
                expect(live)

        expect(live)
        workers = [asyncio.create_task(work()) for _ in range(live)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            expect(0)  # a coroutine that is cancelled before its first step never reaches its own `finally`

    def _specs(self) -> list[tuple[_Group, EpisodeSpec]]:
        """This share's episodes in (group, episode) order. A task that comes twice counts its episodes on, in noise
        only."""
        rules, seen, (rank, processes) = self.rules, Counter[str](), self.share
        specs = []
        for group in self.groups:
            task = group.task
            for episode in range(rules.group):
                spec = replace(
                    rules.template,
                    id=f"{rules.label}-g{group.index:03d}-e{episode}",
                    split=task.split,
                    task_id=task.id,
                    task_type=task.type,
                    group=group.index,
                    episode=episode,
                    noise_parts=(*rules.seed_parts, task.id, seen[task.id]),
                )
                seen[task.id] += 1
                if group.index % processes == rank:
                    specs.append((group, spec))
        return specs

    async def _episode(self, group: _Group, spec: EpisodeSpec) -> None:
        """One episode with its retries; the last failure drops the group."""
        blamed = blameless = 0
        while group.lost is None:
            slot = self.pool.slot()
            try:
                trajectory = await run_episode(
                    spec, _SlotEnv(slot, group), self.voice(spec), self.prompts, self.memory(spec)
                )
            except EnvFailure as failure:
                self.failures[failure.kind] += 1
                blamed, blameless = blamed + failure.culprit, blameless + (not failure.culprit)
                level = logging.WARNING if failure.culprit else logging.DEBUG
                log.log(level, "Episode %s on %s failed (%s): %s", spec.id, spec.task_id, failure.kind, failure.message)
                if blamed > self.rules.retries or blameless > BLAMELESS_RETRIES:
                    group.lost = failure
            except _GroupLost:
                return
            else:
                score_trajectory(trajectory, self.rules.reward, spec.may_ask)
                group.trajectories[spec.episode] = trajectory
                self.on_episode(trajectory)
                return
            finally:
                slot.release()

    def result(self, seconds: float) -> RolloutResult:
        """What came through, what did not, and the numbers of this share."""
        dropped = [
            DroppedGroup(group.index, group.task.id, group.lost.kind, group.lost.message)
            for group in self.groups
            if group.lost is not None
        ]
        mine = [group for group in self.groups if group.index % self.share[1] == self.share[0] and group.lost is None]
        trajectories = [group.trajectories[episode] for group in mine for episode in range(self.rules.group)]
        metrics = rollout_metrics(trajectories, self.failures, len(dropped), seconds)
        return RolloutResult(trajectories, dropped, dict(self.failures), metrics)
