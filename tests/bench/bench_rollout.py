"""Wall-clock of a rollout: lock-step against one coroutine per episode, at several success rates.

Both sides make the same requests to the same simulated engine (continuous batching, latencies of a 7B model on one GPU)
on a virtual clock; ours is the real `rollout` with prompts, parser, pool and reward. Peers: `lock-step`, in which every
round generates for all episodes, also finished ones, and waits for the slowest (verl-agent and the official release),
and `active`, the same without the finished ones. Episodes that succeed end early, the others at the horizon.

Run: `python tests/bench/bench_rollout.py [--tasks 16] [--group 8] [--horizon 50]`
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Sequence
from typing import Any

from envs import registry
from envs.base import Observation, Task, TextEnv
from envs.pool import EnvPool
from mh_train.agent.prompts import Prompts
from mh_train.agent.speaker import EngineSpeaker
from mh_train.config.schema import EnvConfig, MemoryConfig, RolloutConfig, RunConfig, Use
from mh_train.engine.base import Request, Sampling, noise_key
from mh_train.engine.simulated import Latency, SimulatedEngine, run_virtual
from mh_train.rollout.runner import rollout

RATES = (0.10, 0.50, 0.75, 0.85)
ROOM = "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a fridge 1, and a shelf 1. "


class Countdown(TextEnv):
    """Is won after `task.data["steps"]` steps, whatever is done."""

    name, splits, task_types = "countdown", ("train",), ("wait",)

    @classmethod
    def tasks(cls, split: str, **options: Any) -> list[Task]:
        raise NotImplementedError

    def reset(self, task: Task) -> Observation:
        self.left = int(task.data["steps"])
        return self._see()

    def step(self, action: str) -> Observation:
        self.left -= 1
        return self._see()

    def _see(self) -> Observation:
        won = self.left <= 0
        return Observation(ROOM * 3, ("look", "go to shelf 1"), "wait.", float(won), won, won)


def lengths(episodes: int, rate: float, horizon: int) -> list[int]:
    """Steps per episode: successes are shorter the better the policy, failures run past the horizon."""
    rng = random.Random(f"lengths/{rate}")
    shortest, longest = 4, round(2 * (24 - 14 * rate)) - 4
    order = [rng.randint(shortest, longest) if n < rate * episodes else horizon + 1 for n in range(episodes)]
    rng.shuffle(order)
    return order


async def ours(config: RunConfig, tasks: Sequence[Task]) -> int:
    """Our rollout on the caller's clock; the mean prompt length, in tokens."""
    engine = SimulatedEngine(Latency())
    prompts = Prompts("compact", engine.codec, 1 << 20, 3, "")
    async with EnvPool("countdown", {}, 0, 60.0) as pool:
        result = await rollout(config, tasks, pool, EngineSpeaker(engine), engine, prompts, None, 0)
    return round(result.metrics["env/prompt_tokens"] / result.metrics["env/turns"])


async def lockstep(config: RunConfig, tasks: Sequence[Task], prompt: int, only_active: bool) -> None:
    """Every round: all requests at once, then wait for all answers."""
    engine = SimulatedEngine(Latency())
    sampling = Sampling(max_tokens=config.env.completion_tokens)
    left = [min(int(task.data["steps"]), config.env.horizon) for task in tasks]
    for turn in range(max(left)):
        live = [n for n in range(len(tasks)) if left[n] > turn or not only_active]
        noise = [noise_key(config.seed, 0, tasks[n].id, 0, turn) for n in live]
        await asyncio.gather(*(engine.generate(Request((1,) * prompt, sampling, key)) for key in noise))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--horizon", type=int, default=50)
    arguments = parser.parse_args()
    episodes = arguments.tasks * arguments.group
    registry.register("countdown", f"{Countdown.__module__}:Countdown")
    config = RunConfig(
        env=EnvConfig(name="countdown", horizon=arguments.horizon, completion_tokens=512),
        rollout=RolloutConfig(group=1),
        memory=MemoryConfig(use=Use.none),
    )
    print(f"{episodes} episodes, horizon {arguments.horizon}; simulated seconds")
    print("success    ours  active  lock-step  active/ours  lock-step/ours")
    for rate in RATES:
        steps = lengths(episodes, rate, arguments.horizon)
        tasks = [Task(f"t{n:03d}", "countdown", "train", "wait", {"steps": count}) for n, count in enumerate(steps)]
        prompt, mine = run_virtual(ours(config, tasks))
        _, active = run_virtual(lockstep(config, tasks, prompt, only_active=True))
        _, everyone = run_virtual(lockstep(config, tasks, prompt, only_active=False))
        print(
            f"{rate:7.2f} {mine:7.1f} {active:7.1f} {everyone:10.1f} {active / mine:12.2f} {everyone / mine:15.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
