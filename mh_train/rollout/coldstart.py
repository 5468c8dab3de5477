"""Cold-start data from the environment's own expert (SPEC 6): the rollout's loop and prompts, another speaker.

Why: before reinforcement learning the policy must know the protocol: think, ask once, rewrite or reject, act, distil.
Two passes: the expert first plays without memory and distils what it learnt; then it plays with those records (never
those of the same task), asking once, in the use modes that the policy will be evaluated in.
Invariants: equal config and data give equal rows whatever the number of workers; failed expert episodes stay in, since
a searcher's actions are right for what it knew, and keeping only the lucky ones would teach luck.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from envs.base import Expert, Task, TextEnv
from envs.pool import EnvPool
from mh_train.agent.loop import EpisodeSpec
from mh_train.agent.prompts import Prompts
from mh_train.agent.types import Trajectory
from mh_train.config.schema import RunConfig, Use
from mh_train.engine.base import noise_key
from mh_train.memory.distill import make_record
from mh_train.memory.records import Record
from mh_train.rollout.expert import ExpertMemory, ExpertSpeaker, Recall, Shelf
from mh_train.rollout.metrics import rollout_metrics
from mh_train.rollout.panels import RolloutError
from mh_train.rollout.play import play
from mh_train.rollout.rules import Rules, training_rules
from mh_train.rollout.sft_rows import SftRow, sft_row

MIX = {"reconstruct": 0.6, "replay": 0.2, "none": 0.2}
"""Use modes of the second pass when the run reconstructs; a run with another mode gets that one only."""
ASK_AT_START = 0.7  # share of these that ask at step 0; the others at a random step of the first third
NOTHING_FOUND = 0.1  # share of questions that an empty memory answers
CONCURRENCY = 64  # episodes at once: as many environments are made


@dataclass
class ColdStart:
    """Rows to learn, in (episode, turn) order with distil rows last; the second pass' episodes; numbers about both."""

    rows: list[SftRow]
    trajectories: list[Trajectory]
    metrics: dict[str, float]


async def cold_start(
    config: RunConfig,
    env_class: type[TextEnv],
    tasks: Sequence[Task],
    pool: EnvPool,
    prompts: Prompts,
    on_episode: Callable[[Trajectory], None] = lambda trajectory: None,
) -> ColdStart:
    """`sft.trajectories` expert episodes over `tasks` in turn, and `sft.summaries` trajectory -> memory pairs.

    The first pass plays each task of the first half once; `on_episode` hears the episodes of both passes. Raises
    `RolloutError` when the environment has no expert.
    """
    started = time.perf_counter()
    teacher = _Teacher(config, env_class, pool, prompts, on_episode)
    chosen = [tasks[index % len(tasks)] for index in range(config.sft.trajectories)]
    first = await teacher.play("none", chosen[: min(len(tasks), (len(chosen) + 1) // 2)], "first", noise=0.0)
    teacher.shelf = Shelf(teacher.records(first))
    episodes: list[Trajectory] = []
    for use, share in _split(chosen, config.memory.use, config.seed).items():
        episodes += await teacher.play(use, share, f"sft-{use}", config.sft.expert_noise)
    rows = [row for episode in episodes for row in teacher.speakers[episode.id].rows]
    rows += teacher.pairs([*first, *episodes])
    metrics = rollout_metrics(episodes, {}, len(chosen) - len(episodes), time.perf_counter() - started)
    metrics["sft/records"] = float(len(teacher.shelf))
    metrics |= {f"sft/rows_{kind}": float(count) for kind, count in Counter(row.kind for row in rows).items()}
    return ColdStart(rows, episodes, metrics)


@dataclass
class _Teacher:
    config: RunConfig
    env_class: type[TextEnv]
    pool: EnvPool
    prompts: Prompts
    on_episode: Callable[[Trajectory], None]
    shelf: Shelf = field(default_factory=lambda: Shelf([]))
    speakers: dict[str, ExpertSpeaker] = field(default_factory=dict)

    async def play(self, use: str, tasks: Sequence[Task], label: str, noise: float) -> list[Trajectory]:
        """One episode per task in one use mode, in task order; the speakers of its episodes keep the rows."""
        result = await play(
            self._rules(use, label),
            tasks,
            self.pool,
            self.prompts,
            voice=lambda spec: self._voice(spec, noise),
            memory=self._memory,
            on_episode=self.on_episode,
        )
        return result.trajectories

    def records(self, episodes: Sequence[Trajectory]) -> list[Record]:
        """What the expert writes about solved episodes."""
        lessons = [(episode, self._lesson(episode)) for episode in episodes if episode.won]
        return [make_record(episode, *lesson, 0, "expert") for episode, lesson in lessons if lesson is not None]

    def pairs(self, episodes: Sequence[Trajectory]) -> list[SftRow]:
        """Distil rows of `sft.summaries` random episodes; one that taught nothing gives the empty list."""
        distill = self.config.memory.distill
        able = [episode for episode in episodes if episode.steps]
        rng = random.Random(noise_key(self.config.seed, "summaries"))
        rows = []
        for episode in rng.sample(able, min(self.config.sft.summaries, len(able))):
            rendered = self.prompts.distill(episode, distill.per_trajectory, distill.prompt_tokens)
            lesson = self._lesson(episode)
            memories = [] if lesson is None else [dict(zip(("situation", "memory"), lesson, strict=True))]
            text = json.dumps({"memories": memories}, ensure_ascii=False, separators=(",", ":"))
            rows.append(sft_row(self.prompts.codec, "distill", rendered.messages, text, rendered.ids))
        return rows

    def _expert(self, seed: int) -> Expert:
        expert = self.env_class.expert(seed, **self.config.env.options)
        if expert is None:
            raise RolloutError(
                f"{self.env_class.name} has no expert to learn from; give sft.data a JSONL file of rows."
            )
        return expert

    def _lesson(self, episode: Trajectory) -> tuple[str, str] | None:
        steps = [(step.observation, step.action) for step in episode.steps]
        return self._expert(0).distill(episode.goal, steps, episode.won)

    def _rules(self, use: str, label: str) -> Rules:
        rules = training_rules(self.config, 0)
        trigger = "off" if use == "none" else "agentic"
        template = replace(rules.template, use=use, trigger=trigger)
        return replace(rules, template=template, label=label, group=1, concurrency=CONCURRENCY)

    def _voice(self, spec: EpisodeSpec, noise: float) -> ExpertSpeaker:
        """A fresh expert; one that starts over after a failure says the same again."""
        key = noise_key(self.config.seed, spec.id)
        rng = random.Random(key)
        later = rng.randint(1, max(1, spec.horizon // 3))
        ask_at = (0 if rng.random() < ASK_AT_START else later) if rng.random() < self.config.sft.ask_share else None
        speaker = self.speakers[spec.id] = ExpertSpeaker(self._expert(key), self.prompts.codec, rng, ask_at, noise)
        return speaker

    def _memory(self, spec: EpisodeSpec) -> ExpertMemory | None:
        if spec.use == "none":
            return None
        luck = noise_key(self.config.seed, spec.id, "recall") / 2**64
        reject = self.config.sft.reject_share
        recall: Recall = "irrelevant" if luck < reject else "nothing" if luck < reject + NOTHING_FOUND else "relevant"
        return ExpertMemory(self.shelf, self.config.memory.k, recall)


def _split(tasks: Sequence[Task], use: Use, seed: int) -> dict[str, list[Task]]:
    """The tasks by use mode, each drawn by itself with the shares of `MIX`."""
    own = {Use.reconstruct: MIX, Use.external: MIX}.get(use, {use.value: 1.0})
    drawn = random.Random(noise_key(seed, "mix")).choices(list(own), list(own.values()), k=len(tasks))
    return {mode: [task for task, pick in zip(tasks, drawn, strict=True) if pick == mode] for mode in own}
