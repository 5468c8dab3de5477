"""Distillation (SPEC 4): which trajectories of a rollout are kept, what the policy writes about them, what of that is
usable.

Why: the bank is filled by the policy's own words. Invariants: the choice of trajectories and the noise of every answer
depend on (seed, update, trajectory) alone; parsing never raises on any text; every accepted entry keeps the real
observation that it is about.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Mapping, Sequence, Set
from typing import Any, Protocol

from mh_train.agent.parse import parse_reconstruct
from mh_train.agent.speaker import Speaker, TurnRequest
from mh_train.agent.types import Trajectory
from mh_train.config.schema import DistillConfig
from mh_train.engine.base import Completion, Engine, Sampling, noise_key
from mh_train.memory.index import words
from mh_train.memory.records import Change, Provenance, Record, clean_text, record_id
from mh_train.memory.signature import entity_words, signature, things_in

MOST_STARTS = 64
"""Places in a completion where JSON may begin that are tried, so that parsing stays linear in the text's length."""
_START = re.compile(r"[\[{]")
_PAIR = re.compile(r'"situation"\s*:\s*"((?:[^"\\]|\\.)*)"\s*,\s*"memory"\s*:\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)


class DistillPrompts(Protocol):
    """Renders the distill turn (`mh_train.agent.prompts.Prompts`)."""

    def distill(self, trajectory: Trajectory, per_trajectory: int, limit: int | None = None) -> Any:
        """An object with the prompt's token ids (`ids`) and what they encode (`messages`)."""


def choose(
    trajectories: Sequence[Trajectory], won: Mapping[str, bool], config: DistillConfig, seed: int, update: int
) -> list[Trajectory]:
    """The `fraction` of trajectories that are distilled, in their given order; `won` is each one's outcome by id, and
    with `only` those of the other outcome are left out. What is left of the share after whole trajectories is the
    chance of one more, so that streams of single episodes keep their share too.

    As many successes as failures as far as there are any; what then lacks is filled at random from the rest."""
    able = [t for t in trajectories if len(t.steps) >= max(config.min_steps, 1)]
    if config.only:
        able = [t for t in able if won[t.id] == (config.only == "success")]
    rng = random.Random(noise_key(seed, update, "distill"))
    share = len(trajectories) * config.fraction
    more = share > int(share) and rng.random() < share - int(share)
    wanted = min(int(share) + more, len(able))
    sides = [t for t in able if won[t.id]], [t for t in able if not won[t.id]]
    chosen = {t.id for side in sides for t in rng.sample(side, min(wanted // 2, len(side)))}
    rest = [t.id for t in able if t.id not in chosen]
    chosen |= set(rng.sample(rest, wanted - len(chosen)))
    return [t for t in able if t.id in chosen]


async def ask_all(speaker: Speaker, engine: Engine, turns: Sequence[TurnRequest]) -> list[Completion]:
    """Answer turns concurrently, telling the engine at every moment how many may still ask."""
    open_turns = len(turns)
    engine.expect(open_turns)

    async def one(turn: TurnRequest) -> Completion:
        nonlocal open_turns
        try:
            return await speaker.speak(turn)
        finally:
            open_turns -= 1
            engine.expect(open_turns)

    return list(await asyncio.gather(*(one(turn) for turn in turns)))


async def distill(
    chosen: Sequence[Trajectory],
    speaker: Speaker,
    engine: Engine,
    prompts: DistillPrompts,
    config: DistillConfig,
    seed: int,
    update: int,
    run: str = "",
) -> tuple[list[tuple[int, Record]], dict[str, float]]:
    """(trajectory index, record) pairs that the policy writes about chosen trajectories, and counts."""
    sampling = Sampling(temperature=config.temperature, max_tokens=config.max_tokens)
    limit = min(config.prompt_tokens, engine.max_context - config.max_tokens)
    rendered = [prompts.distill(t, config.per_trajectory, limit) for t in chosen]
    turns = [
        TurnRequest(
            kind="distill",
            step=len(t.steps),
            prompt_ids=prompt.ids,
            sampling=sampling,
            noise=noise_key(seed, update, t.id, "distill"),
            goal=t.goal,
            observation=t,
            messages=prompt.messages,
        )
        for t, prompt in zip(chosen, rendered, strict=True)
    ]
    answers = await ask_all(speaker, engine, turns)
    records: list[tuple[int, Record]] = []
    names = entity_words(chosen)
    counts = {
        "distill_requests": float(len(turns)),
        "distill_unparsed": 0.0,
        "distill_tagged": 0.0,
        "distill_empty": 0.0,
        "distill_ungrounded": 0.0,
    }
    for i, (trajectory, answer) in enumerate(zip(chosen, answers, strict=True)):
        entries = parse_memories(answer.text)
        if entries is None:
            counts["distill_unparsed"] += 1
            continue
        counts["distill_empty"] += not entries
        for situation, memory in entries[: config.per_trajectory]:
            if not parse_reconstruct(memory).guidance or (situation and not parse_reconstruct(situation).guidance):
                counts["distill_tagged"] += 1
                continue
            if config.grounded and not grounded(memory, trajectory, names):
                counts["distill_ungrounded"] += 1
                continue
            records.append((i, make_record(trajectory, situation, memory, update, run, names)))
    return records, {f"memory/{name}": value for name, value in counts.items()}


def make_record(
    trajectory: Trajectory, situation: str, memory: str, update: int, run: str, names: Set[str] | None = None
) -> Record:
    """One accepted entry as a record with its real source observation, signature, origin and id. `names` are the
    environment's words for things, by default those of this episode."""
    names = entity_words([trajectory]) if names is None else names
    situation, memory = clean_text(situation), clean_text(memory)
    step = source_step(situation or memory, trajectory)
    source = clean_text(trajectory.steps[step].observation)
    t = trajectory
    return Record(
        id=record_id(t.env, t.task_id, t.id, update, step, situation, memory),
        env=t.env,
        task_type=t.task_type,
        content=memory,
        situation=situation,
        source_state=source,
        signature=signature("procedural_hint", t.env, t.task_type, memory, situation, t.goal, names),
        provenance=(Provenance(run, update, t.task_id, t.id, step),),
        timeline=(Change(update, "add", "curate", "distilled"),),
    )


def grounded(memory: str, trajectory: Trajectory, names: Set[str]) -> bool:
    """Whether some step of the trajectory shows, in its observation or action, all things that the memory names: what
    the evidence span proves of an induced memory (SPEC 5), for one that has none."""
    said = things_in(memory) & names
    return any(said <= things_in(f"{step.observation} {step.action}") for step in trajectory.steps)


def source_step(situation: str, trajectory: Trajectory) -> int:
    """The step whose observation shares the most distinct words with the written situation; ties go to the earliest."""
    wanted = set(words(situation))
    shared = [len(wanted & set(words(step.observation))) for step in trajectory.steps]
    return shared.index(max(shared))


def parse_memories(text: str) -> list[tuple[str, str]] | None:
    """(situation, memory) pairs of a distill completion; None when it holds no readable answer, [] when it declines.

    Reads the first JSON value that has memories, wherever it stands (code fences, text around it, nested objects); of
    broken or cut-off JSON the complete pairs. Never raises."""
    for value in json_values(text):
        entries = _entries(value)
        if entries is not None:
            return entries
    pairs = [(_unescape(situation), _unescape(memory)) for situation, memory in _PAIR.findall(text)]
    return [pair for pair in pairs if pair[1].strip()] or None


def json_values(text: str) -> list[Any]:
    """All JSON objects and lists that start in a text, outermost first. Never raises."""
    decoder = json.JSONDecoder(strict=False)
    values: list[Any] = []
    position = 0
    for _ in range(MOST_STARTS):
        found = _START.search(text, position)
        if found is None:
            break
        try:
            value, position = decoder.raw_decode(text, found.start())
            values.append(value)
        except (ValueError, RecursionError):
            position = found.start() + 1
    return values


def _entries(value: Any, depth: int = 3) -> list[tuple[str, str]] | None:
    """The pairs of one JSON value: under "memories", a list of entries, one entry, or any of these nested in an
    object."""
    if isinstance(value, dict) and "memories" not in value and "memory" not in value and depth:
        nested = (_entries(inner, depth - 1) for inner in value.values())
        return next((entries for entries in nested if entries is not None), None)
    declined = isinstance(value, dict) and value.get("memories") == []
    items = value.get("memories", [value]) if isinstance(value, dict) else value
    items = [items] if isinstance(items, dict) else items
    if not isinstance(items, list) or not (items or declined):
        return None
    pairs = [_entry(item) for item in items]
    return None if None in pairs else [pair for pair in pairs if pair]


def _entry(item: Any) -> tuple[str, str] | None:
    memory = item.get("memory") if isinstance(item, dict) else None
    situation = item.get("situation") if isinstance(item, dict) else None
    if not isinstance(memory, str) or not memory.strip():
        return None
    return (situation if isinstance(situation, str) else "", memory)


def _unescape(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text
