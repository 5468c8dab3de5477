"""Wall-clock of training, simulated: how much `rollout.max_staleness` saves over synchronous and lock-step training.

Everything happens on a virtual clock: the real scheduler (`stages.flights`), the real `rollout` with prompts, parser,
pool and reward, a simulated engine (continuous batching, latencies of a 7B model on one GPU), and a learner that takes
`--learner` times as long as a synchronous rollout, on GPUs of its own. `sync` is max_staleness 0; `lock-step` generates
for all episodes in rounds and then updates (verl-agent and the official release).

Run: `python tests/bench/bench_async.py [--updates 6] [--learner 0.5]`
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from bench_rollout import Countdown, lengths, lockstep

from envs import registry
from envs.base import Task
from envs.pool import EnvPool
from mh_train.agent.prompts import Prompts
from mh_train.agent.speaker import EngineSpeaker
from mh_train.config.schema import EnvConfig, MemoryConfig, RolloutConfig, RunConfig, Use
from mh_train.engine.simulated import Latency, SimulatedEngine, run_virtual
from mh_train.rollout.play import RolloutResult
from mh_train.rollout.runner import rollout
from mh_train.stages.flights import Flights, staleness


async def train(config: RunConfig, batches: Sequence[Sequence[Task]], update_s: float) -> float:
    """All updates on the caller's clock; the mean staleness of the episodes."""
    engine, ages = SimulatedEngine(Latency()), []
    prompts = Prompts("compact", engine.codec, 1 << 20, 3, "")
    async with EnvPool("countdown", {}, 0, 60.0) as pool:

        async def fly(update: int) -> RolloutResult:
            return await rollout(
                config, batches[update - 1], pool, EngineSpeaker(engine), engine, prompts, None, update
            )

        flights = Flights(fly, config.rollout.max_staleness, len(batches))
        for done in range(len(batches)):
            result = await flights.land(done)
            await asyncio.sleep(update_s)
            await engine.sync(None, done + 1)
            if config.rollout.max_staleness:
                ages.append(staleness(result.trajectories, done + 1)["async/staleness"])
    return sum(ages) / max(1, len(ages))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--updates", type=int, default=6)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--learner", type=float, default=0.5, help="seconds of an update / seconds of a sync rollout")
    parser.add_argument("--success", type=float, default=0.5)
    asked = parser.parse_args()
    registry.register("countdown", f"{Countdown.__module__}:Countdown")

    def config(ahead: int) -> RunConfig:
        return RunConfig(
            env=EnvConfig(name="countdown", horizon=50, completion_tokens=512),
            rollout=RolloutConfig(group=1, max_staleness=ahead),
            memory=MemoryConfig(use=Use.none),
        )

    def batch(update: int) -> list[Task]:
        steps = lengths(asked.episodes, asked.success, 50)
        steps = steps[update:] + steps[:update]
        return [Task(f"t{n:03d}", "countdown", "train", "wait", {"steps": count}) for n, count in enumerate(steps)]

    batches = [batch(update) for update in range(asked.updates)]
    _, one = run_virtual(train(config(0), batches[:1], 0.0))
    update_s = asked.learner * one
    _, round_s = run_virtual(lockstep(config(0), batches[0], 500, only_active=False))
    locked = asked.updates * (round_s + update_s)
    print(f"{asked.updates} updates of {asked.episodes} episodes, success {asked.success}; simulated seconds")
    print(f"a synchronous rollout takes {one:.0f} s, a lock-step one {round_s:.0f} s, an update {update_s:.0f} s")
    print("max_staleness  seconds  sync/this  lock-step/this  staleness")
    sync = 0.0
    for ahead in (0, 1, 2, 4):
        age, seconds = run_virtual(train(config(ahead), batches, update_s))
        sync = sync or seconds
        print(f"{ahead:13d} {seconds:8.0f} {sync / seconds:10.2f} {locked / seconds:15.2f} {age:10.2f}", flush=True)


if __name__ == "__main__":
    main()
