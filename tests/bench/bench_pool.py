"""Cost of one environment step from an event loop: batched worker processes against one process per environment.

The environment is the toy, which takes microseconds, so what is measured is the way there and back. Peer: `per env`,
one `multiprocessing` process and pipe per environment, all stepped together, as the vectorised environments of
Gymnasium and TextWorld do; `here` is our in-process twin. Start-up is timed apart and counted in the CPU seconds.

Run: `python tests/bench/bench_pool.py [--envs 32] [--steps 500] [--workers 2]`
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import time
from multiprocessing.connection import Connection

from envs.pool import EnvPool
from envs.toy import ToyEnv

TASK = ToyEnv.tasks("train")[0]


def cpu_seconds() -> float:
    """User and system time of this process and of the children that ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


async def batched(envs: int, steps: int, workers: int) -> tuple[float, float]:
    """(start-up seconds, seconds of all steps) of our pool; every environment advances by itself."""
    started = time.perf_counter()
    async with EnvPool("toy", {}, workers, 60.0) as pool:
        slots = [pool.slot() for _ in range(envs)]
        await asyncio.gather(*(slot.reset(TASK) for slot in slots))

        async def episode(slot):
            for _ in range(steps):
                await slot.step("look")

        ready = time.perf_counter()
        await asyncio.gather(*(episode(slot) for slot in slots))
        return ready - started, time.perf_counter() - ready


def per_env(envs: int, steps: int) -> tuple[float, float]:
    """The same with one process per environment, in lock-step."""
    started = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(envs)]
    processes = [context.Process(target=serve, args=(theirs,), daemon=True) for _, theirs in pipes]
    for process in processes:
        process.start()
    for ours, _ in pipes:
        ours.recv()
    ready = time.perf_counter()
    for _ in range(steps):
        for ours, _ in pipes:
            ours.send("look")
        for ours, _ in pipes:
            ours.recv()
    done = time.perf_counter()
    for ours, _ in pipes:
        ours.send(None)
    for process in processes:
        process.join()
    return ready - started, done - ready


def serve(pipe: Connection) -> None:
    """The peer's worker: one environment."""
    env = ToyEnv()
    pipe.send(env.reset(TASK))
    while (action := pipe.recv()) is not None:
        pipe.send(env.step(action))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--envs", type=int, default=32)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    envs, steps = arguments.envs, arguments.steps
    runs = {
        "batched": lambda: asyncio.run(batched(envs, steps, arguments.workers)),
        "here": lambda: asyncio.run(batched(envs, steps, 0)),
        "per env": lambda: per_env(envs, steps),
    }
    print(f"{envs} environments x {steps} steps, {arguments.workers} workers, load {os.getloadavg()[0]:.1f}")
    print("             start s   us/step   CPU s   per env/this")
    rows = {}
    for name, run in runs.items():
        before = cpu_seconds()
        start, seconds = run()
        rows[name] = (start, 1e6 * seconds / (envs * steps), cpu_seconds() - before)
    for name, (start, each, cpu) in rows.items():
        print(f"{name:>10} {start:9.2f} {each:9.1f} {cpu:7.2f} {rows['per env'][1] / each:14.1f}")


if __name__ == "__main__":
    main()
