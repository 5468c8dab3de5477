"""A task stream, several memory methods side by side: cumulative curves, `<run>/stream/stream.json` and a table.

Why: shows what governing a growing bank is worth, without hidden labels. With `engine=scripted` the agent is the
environment's expert with errors (seconds of CPU); with any other engine it is the run's own policy.
Invariant: finished streams and checkpoints are kept, so the same command continues.
Run: `mh-train stream experiment=stream_alfworld`.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.console import Console

from envs.base import Expert, Task
from envs.pool import EnvPool
from mh_train.agent.loop import EpisodeSpec
from mh_train.agent.prompts import Prompts
from mh_train.agent.speaker import EngineSpeaker
from mh_train.config import ConfigError, RunConfig, compose
from mh_train.config.schema import MemoryConfig, StreamConfig, Use
from mh_train.engine.base import noise_key
from mh_train.engine.scripted import ScriptedEngine
from mh_train.evaluate import curves
from mh_train.evaluate.erring import ErringExpert, judge_policy
from mh_train.evaluate.harm import Truth
from mh_train.evaluate.readings import READINGS
from mh_train.evaluate.stream import Cell, Method, Parts, Row, check_comparable, play_cell
from mh_train.files import write_atomic
from mh_train.memory.embed import make_embedder
from mh_train.rollout.expert import ExpertSpeaker
from mh_train.rollout.panels import make_panel
from mh_train.rollout.play import Voice, play
from mh_train.rollout.rules import evaluation_rules
from mh_train.run.folder import RunFolder
from mh_train.run.progress import bar, say
from mh_train.stages import parts

CHARACTERS = 1 << 20
"""Prompt limit of the scripted agent, which has no tokens."""
WIDE = 160
"""Columns of a table in a file or a pipe, where nothing need be folded."""
REFERENCE_HORIZON = 60
"""Steps of the expert that finds out what is true about a task."""


def main(config: RunConfig) -> None:
    """Play every method over every seed; print and write the table."""
    folder = parts.settle(config)
    result = asyncio.run(run_streams(config, folder))
    write_atomic(folder.path / "stream" / "stream.json", json.dumps(result, indent=1) + "\n")
    table = curves.markdown(result)
    write_atomic(folder.path / "stream" / "stream.md", table)
    Console(width=None if sys.stdout.isatty() else WIDE).print(curves.terminal(result))
    say(f"run folder: {folder.path}")


async def run_streams(config: RunConfig, folder: RunFolder) -> dict[str, Any]:
    """The summary over all methods and seeds of `config.stream`."""
    asked = config.stream
    named = methods(asked)
    check_comparable(named)
    env_class = parts.environment(config)
    panels = {
        seed: make_panel(env_class, config.env.train_split, config.env.options, asked.tasks, seed)
        for seed in asked.seeds
    }
    cells: dict[str, dict[int, list[Row]]] = {method.name: {} for method in named}
    async with parts.pool(config) as pool:
        with bar("stream", len(named) * len(asked.seeds)) as progress:
            stage = await _parts(config, folder, pool, named, [t for p in panels.values() for t in p.tasks])
            async with stage.engine:
                for seed, panel in panels.items():
                    for method in named:
                        cell = Cell(method, seed, panel)
                        rows = await play_cell(config, cell, stage, folder.path / "stream", _about(config))
                        cells[method.name][seed] = rows
                        progress.advance({method.name: seed, "success": sum(r["success"] for r in rows) / len(rows)})
    return {"settings": _about(config), **curves.summary(cells, pairs(asked))}


def pairs(asked: StreamConfig) -> list[tuple[str, str]]:
    """The last method against every other one, at each noise."""
    by_noise = [[method.name for method in methods(replace(asked, noise=[noise]))] for noise in asked.noise]
    return [(last, other) for *others, last in by_noise for other in others]


def methods(asked: StreamConfig) -> list[Method]:
    """`stream.methods` x `stream.noise`, composed from configs/memory; noise changes nothing without a bank."""
    memories = {name: memory_of(name, asked.shared) for name in asked.methods}
    found = []
    for noise in asked.noise:
        for name, memory in memories.items():
            if memory.use is not Use.none:
                label = f"{name}-noise{noise:g}" if noise else name
                found.append(Method(label, replace(memory, noise=noise)))
            elif noise == asked.noise[0]:
                found.append(Method(name, memory))
    return found


def memory_of(name: str, settings: Sequence[str]) -> MemoryConfig:
    """The memory settings of one file of configs/memory with settings on top; without memory only the file's own."""
    plain = ["env=toy", "model=tiny", f"memory={name}"]
    memory = compose(plain).memory
    return memory if memory.use is Use.none or not settings else compose([*plain, *settings]).memory


async def _parts(
    config: RunConfig, folder: RunFolder, pool: EnvPool, named: Sequence[Method], tasks: Sequence[Task]
) -> Parts:
    memory = next((method.memory for method in named if method.memory.use is not Use.none), config.memory)
    embedder = make_embedder(memory.embedder)
    if config.engine.name != "scripted":
        model = folder.model if (folder.model / "config.json").is_file() else parts.start_policy(config, folder)
        policy = parts.policy(config, model)
        return Parts(
            pool,
            policy.prompts,
            lambda seed: lambda spec: policy.speaker,
            policy.speaker,
            policy.engine,
            embedder,
            None,
        )
    if config.env.name not in READINGS:
        raise ConfigError(
            f"The scripted agent knows {', '.join(READINGS)}; choose another engine for {config.env.name}."
        )
    asked = config.stream
    engine = ScriptedEngine(judge_policy(READINGS[config.env.name], asked.fooled, asked.slip))
    prompts = parts.make_prompts(config, engine.codec, CHARACTERS)
    truth = await _truth(config, pool, prompts, tasks)
    return Parts(
        pool, prompts, lambda seed: _voice(config, prompts, seed), EngineSpeaker(engine), engine, embedder, truth
    )


def _voice(config: RunConfig, prompts: Prompts, seed: int) -> Voice:
    """The expert with errors; it asks memory once, at the start. Equal slips for every method."""

    def voice(spec: EpisodeSpec) -> ExpertSpeaker:
        key = noise_key("stream", seed, spec.task_id)
        expert = ErringExpert(lambda: _expert(config, key), config.stream.error, random.Random(key))
        return ExpertSpeaker(expert, prompts.codec, random.Random(key), 0, 0.0)

    return voice


async def _truth(config: RunConfig, pool: EnvPool, prompts: Prompts, tasks: Sequence[Task]) -> Truth:
    """What an expert without errors and with plenty of steps finds out about each task."""
    known = {task.id: task for task in tasks}
    run = replace(config, env=replace(config.env, horizon=REFERENCE_HORIZON))
    memory = memory_of("none", [])
    rules = evaluation_rules(replace(run, memory=memory), memory.use, memory.trigger, 0, "truth")

    def voice(spec: EpisodeSpec) -> ExpertSpeaker:
        key = noise_key("truth", spec.task_id)
        return ExpertSpeaker(_expert(config, key), prompts.codec, random.Random(key), None, 0.0)

    rules = replace(rules, concurrency=64)
    played = await play(rules, list(known.values()), pool, prompts, voice, lambda spec: None)
    return Truth(lambda: _expert(config, 0), READINGS[config.env.name], played.trajectories)


def _expert(config: RunConfig, seed: int) -> Expert:
    expert = parts.environment(config).expert(seed, **config.env.options)
    if expert is None:
        raise ConfigError(f"{config.env.name} has no expert for this data; use the mini data or another engine.")
    return expert


def _about(config: RunConfig) -> dict[str, Any]:
    """What decides a stream besides method, seed and tasks."""
    asked = config.stream
    return {
        "env": asdict(config.env),
        "engine": config.engine.name,
        "model": config.model.path,
        "agent": {"error": asked.error, "fooled": asked.fooled, "slip": asked.slip},
        "temperature": config.evaluate.temperature,
    }
