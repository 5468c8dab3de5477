"""Holds any environment to the contract of `envs.base`, one rule a line.

Why: a run that fails after an hour because an observation has no goal is a bad way to learn the contract.
Invariant: every rule is reported once; what an environment raises is a finding of its rule, never a crash of the check.
Run: `mh-train env check NAME [split=SPLIT] [option=value ...]`.
"""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from envs import registry
from envs.base import EnvDataError, Observation, Task, TextEnv

WALK = 12  # random steps per task
EXPERT_STEPS = 100
NONSENSE = "sing to the moon 42"


@dataclass(frozen=True)
class Finding:
    """One rule and what breaks it; no problems, rule kept."""

    rule: str
    problems: tuple[str, ...]


@dataclass(frozen=True)
class CheckReport:
    """All findings of one environment; `str` is the text that a person reads."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether every rule holds."""
        return not any(finding.problems for finding in self.findings)

    def __str__(self) -> str:
        lines = [f"environment {self.name}: {'every rule holds' if self.ok else 'the contract is broken'}"]
        for finding in self.findings:
            lines.append(f"  {'BROKEN' if finding.problems else 'ok    '}  {finding.rule}")
            lines += [f"          {problem}" for problem in finding.problems[:3]]
        return "\n".join(lines)


def check_env(name: str, options: Mapping[str, Any], split: str | None = None, n_tasks: int = 3) -> CheckReport:
    """Check a registered environment on the first `n_tasks` tasks of `split` (default: its first one).

    Raises `ValueError` or `ImportError` when the name or the class cannot be found, `EnvDataError` when it has no data.
    """
    env_class = registry.load(name)
    split = split or env_class.splits[0]
    tasks = env_class.tasks(split, **options)
    subject = _Subject(name, env_class, dict(options), split, tasks, tasks[:n_tasks])
    return CheckReport(name, tuple(Finding(rule, _problems(check, subject)) for rule, check in RULES))


@dataclass(frozen=True)
class _Subject:
    name: str
    env_class: type[TextEnv]
    options: dict[str, Any]
    split: str
    tasks: list[Task]
    played: list[Task]

    def make(self) -> TextEnv:
        return self.env_class(**self.options)


def _problems(check: Callable[[_Subject], Iterator[str]], subject: _Subject) -> tuple[str, ...]:
    found = []
    try:
        for problem in check(subject):
            found.append(problem)
    except Exception as error:  # noqa: BLE001 - what an environment raises is the finding
        found.append(f"raised {type(error).__name__}: {error}")
    return tuple(found)


def _walk(env: TextEnv, task: Task, steps: int = WALK) -> list[tuple[str, Observation]]:
    """(action, observation) pairs of a seeded random walk; the first action is empty, it stands for the reset."""
    rng = random.Random(task.id)
    seen = [("", env.reset(task))]
    while len(seen) <= steps and not seen[-1][1].done and seen[-1][1].admissible:
        action = rng.choice(seen[-1][1].admissible)
        seen.append((action, env.step(action)))
    return seen


def _declared(subject: _Subject) -> Iterator[str]:
    for field in ("splits", "task_types"):
        value = getattr(subject.env_class, field, None)
        if not (isinstance(value, tuple) and value and all(isinstance(item, str) for item in value)):
            yield f"{field} is {value!r}, not a filled tuple of strings"
    if subject.env_class.name != subject.name:
        yield f"the class calls itself {subject.env_class.name!r}, the registry {subject.name!r}"


def _tasks(subject: _Subject) -> Iterator[str]:
    if not subject.tasks:
        yield "tasks() gave none; it must raise EnvDataError that says what to do"
    seen: set[str] = set()
    for task in subject.tasks:
        if task.id in seen:
            yield f"the id {task.id!r} appears twice"
        seen.add(task.id)
        if (task.env, task.split) != (subject.name, subject.split):
            yield f"{task.id} says env={task.env!r}, split={task.split!r}"
        if task.type not in subject.env_class.task_types:
            yield f"{task.id} has the type {task.type!r}, which task_types does not list"
        if json.loads(json.dumps(dict(task.data))) != dict(task.data):
            yield f"{task.id} has data that JSON changes"
    if subject.env_class.tasks(subject.split, **subject.options) != subject.tasks:
        yield "a second call gives other tasks or another order"


def _unknown_split(subject: _Subject) -> Iterator[str]:
    try:
        subject.env_class.tasks("no such split", **subject.options)
    except EnvDataError:
        return
    yield "tasks('no such split') raised nothing"


def _observations(subject: _Subject) -> Iterator[str]:
    types = {"text": str, "admissible": tuple, "goal": str, "shown": str, "won": bool, "done": bool, "accepted": bool}
    env = subject.make()
    for task in subject.played:
        for action, seen in _walk(env, task):
            where = f"{task.id} after {action or 'reset'!r}"
            for field, kind in types.items():
                if not isinstance(getattr(seen, field), kind):
                    yield f"{where}: {field} is a {type(getattr(seen, field)).__name__}, not a {kind.__name__}"
            if not all(isinstance(command, str) and command for command in seen.admissible):
                yield f"{where}: admissible holds something else than filled strings"
            if len(set(seen.admissible)) != len(seen.admissible):
                yield f"{where}: an admissible action is listed twice"
            if not 0 <= seen.score <= 1:
                yield f"{where}: the score {seen.score} is outside [0, 1]"
            if not (seen.done or seen.admissible):
                yield f"{where}: nothing is admissible, though the episode goes on"
            if pickle.loads(pickle.dumps(seen)) != seen:
                yield f"{where}: the observation does not survive the way between processes"
    env.close()


def _goal(subject: _Subject) -> Iterator[str]:
    env = subject.make()
    for task in subject.played:
        goals = {seen.goal for _, seen in _walk(env, task)}
        if len(goals) != 1 or "" in goals:
            yield f"{task.id}: the goal is {sorted(goals)}, not one filled text"
    env.close()


def _deterministic(subject: _Subject) -> Iterator[str]:
    first, second = subject.make(), subject.make()
    for task in subject.played:
        walks = _walk(first, task), _walk(second, task), _walk(second, task)
        if walks[0] != walks[1]:
            yield f"{task.id}: two environments give different episodes for the same actions"
        if walks[1] != walks[2]:
            yield f"{task.id}: an environment that is used again gives another episode"
    first.close()
    second.close()


def _answers(subject: _Subject) -> Iterator[str]:
    env = subject.make()
    for task in subject.played:
        for action in (NONSENSE, "", "Ä\ud800" * 50):
            env.reset(task)
            if env.step(action).accepted:
                yield f"{task.id}: {action[:20]!r} is not admissible but was accepted"
        for action, seen in _walk(env, task)[1:]:
            if not seen.accepted:
                yield f"{task.id}: {action!r} was listed as admissible but not accepted"
    env.close()


def _goes_on(subject: _Subject) -> Iterator[str]:
    env = subject.make()
    for task in subject.played:
        last = _play(subject, env, task)[-1]
        after = env.step(NONSENSE)
        if last.done and not after.done:
            yield f"{task.id}: the episode was done and is not any more"
    env.close()


def _expert(subject: _Subject) -> Iterator[str]:
    env = subject.make()
    if subject.env_class.expert(0, **subject.options) is None:
        return
    won = False
    for task in subject.played:
        seen = _play(subject, env, task)
        won = won or seen[-1].won
        expert = subject.env_class.expert(0, **subject.options)
        assert expert is not None
        if not all(isinstance(text, str) for text in (expert.query(seen[0]), expert.reconstruct(seen[0], []))):
            yield f"{task.id}: query and reconstruct must give strings"
    if not won:
        yield f"it won none of {len(subject.played)} tasks in {EXPERT_STEPS} steps each"
    env.close()


def _play(subject: _Subject, env: TextEnv, task: Task) -> list[Observation]:
    """The observations of the expert's episode, or of a random walk when there is no expert."""
    expert = subject.env_class.expert(0, **subject.options)
    if expert is None:
        return [seen for _, seen in _walk(env, task, EXPERT_STEPS)]
    seen = [env.reset(task)]
    while not seen[-1].done and len(seen) <= EXPERT_STEPS:
        seen.append(env.step(expert.act(seen[-1], "")[1]))
    return seen


RULES: tuple[tuple[str, Callable[[_Subject], Iterator[str]]], ...] = (
    ("the class declares its name, splits and task types", _declared),
    ("tasks have unique ids, known types, JSON data and one order", _tasks),
    ("an unknown split is refused with EnvDataError", _unknown_split),
    ("observations have the fields and types of envs.base", _observations),
    ("the goal is the same at every step", _goal),
    ("the same task and actions give the same episode", _deterministic),
    ("listed actions are accepted, unknown ones answered with accepted=False", _answers),
    ("a step after the end does not raise", _goes_on),
    ("the expert, if there is one, can win", _expert),
)
