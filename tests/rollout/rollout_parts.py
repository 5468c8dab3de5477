"""Small real parts for these tests: a config, a policy that asks and acts, an engine that waits for everybody."""

import asyncio
import random
from dataclasses import replace

from envs.pool import EnvPool
from envs.toy import ToyEnv
from mh_train.agent.prompts import Prompts
from mh_train.agent.types import MemoryHit
from mh_train.config.schema import EnvConfig, MemoryConfig, RolloutConfig, RunConfig, SftConfig
from mh_train.engine.base import Completion, Engine, EngineStats
from mh_train.engine.scripted import CharCodec

TASKS = ToyEnv.tasks("train")
SELF = "No memory applies here."


def make_config(**changes):
    config = RunConfig(
        env=EnvConfig(name="toy", horizon=8, completion_tokens=200, timeout_s=20.0, workers=0),
        rollout=RolloutConfig(tasks=4, group=3, retries=1),
        memory=MemoryConfig(max_retrievals=2),
        sft=SftConfig(trajectories=48, summaries=20),
        seed=5,
    )
    for path, value in changes.items():
        section, _, name = path.partition("__")
        setattr(config, section, replace(getattr(config, section), **{name: value}) if name else value)
    return config


def make_prompts(preset="full"):
    return Prompts(preset, CharCodec(), 100_000, 3, SELF)


def make_pool(config):
    return EnvPool(config.env.name, config.env.options, config.env.workers, config.env.timeout_s)


def wander(prompt, rng):
    """Asks sometimes, acts at random, writes nonsense now and then."""
    if "Mode: rewrite" in prompt:
        return rng.choice(["Search the desk first.", "<EMPTY>"])
    if "Mode: act or ask" in prompt and rng.random() < 0.3:
        return "<think>ask</think><retrieve_memory>where is the key</retrieve_memory>"
    actions = prompt.split("Admissible actions:\n")[-1].split("\n\n")[0].split("\n")
    action = rng.choice([*actions, "dance", "</action>"])
    return f"<think>try</think><action>{action}</action>"


class BarrierEngine(Engine):
    """Answers only when as many callers wait as it was told to expect, all of them at once."""

    name = "barrier"

    def __init__(self, policy=wander):
        self.codec, self.max_context = CharCodec(), 1 << 20
        self.policy, self.expected = policy, 0
        self.waiting, self.batches, self.told = [], [], []

    def expect(self, callers):
        self.told.append(callers)
        self.expected = callers
        asyncio.get_running_loop().call_soon(self._look)

    async def generate(self, request):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((request, future))
        asyncio.get_running_loop().call_soon(self._look)
        return await future

    def _look(self):
        self.waiting = [(request, future) for request, future in self.waiting if not future.done()]
        if not self.waiting or len(self.waiting) < self.expected:
            return
        batch, self.waiting = self.waiting, []
        self.batches.append(sorted(request.noise for request, _ in batch))
        for request, future in batch:
            text = self.policy(self.codec.decode(request.prompt_ids), random.Random(request.noise))
            ids = (*self.codec.encode_text(text), 0)
            future.set_result(Completion(ids, (-0.5,) * len(ids), text, "stop"))

    def take_stats(self):
        return EngineStats()


class Shelf:
    """Always finds the same record; remembers who asked."""

    def __init__(self):
        self.asked = []

    async def retrieve(self, query):
        self.asked.append(query)
        return [MemoryHit("m1", "the white key was in the desk", "You are in the hall.")]
