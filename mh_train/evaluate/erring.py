"""A scripted agent that errs: an environment's expert with slips, a noisy verifier and an overconfident writer.

Why: what governance of memories is worth must be visible without a large model, in an agent whose every error is known.
It plays the ordinary episode loop, follows the memories that it is given, and answers the ordinary prompts of judges,
writers and keepers of memories, in which it sees a log or texts and nothing else. Invariant: whatever it says depends
on its seeds and on what it is shown; every method of a stream meets the same slips.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envs.base import Expert, Observation
from mh_train.engine.base import EngineError
from mh_train.evaluate.readings import Lesson, Log, Reading

HASTY = "click[buy now]"
"""What an erring shopper does as soon as it can; elsewhere an erring step is a random one."""
_STEP = re.compile(
    r"^Step \d+\n  observation: (.*)\n(?:  thought: .*\n)?  action: (.*?)(?: \[[^\]]*\])?$", re.MULTILINE
)
_SHORT_STEP = re.compile(r"^saw (.*) did (.*)$", re.MULTILINE)
_KNOWN = re.compile(r"^\[(\w+)\] (.*)$", re.MULTILINE)
JITTER = (-1, *[0] * 8, 1)
"""How far a score may be off, each as likely as the others."""
_CRITERION = re.compile(r"^- (\w+): ", re.MULTILINE)


class ErringExpert(Expert):
    """An expert that errs in a share of its steps; in all else it speaks for itself. When it would search for the same
    words again it forgets what memory told it and starts over, as a fresh expert."""

    def __init__(self, make_expert: Callable[[], Expert], error: float, rng: random.Random) -> None:
        self._make_expert, self._error, self._rng = make_expert, error, rng
        self._expert = make_expert()
        self._searched: set[str] = set()

    def act(self, observation: Observation, guidance: str) -> tuple[str, str]:
        """The expert's thought; its action, or in a share of the steps a hasty or random admissible one."""
        thought, action = self._expert.act(observation, guidance)
        if action in self._searched:
            self._expert = self._make_expert()
            thought, action = self._expert.act(observation, "")
        if action.startswith("search["):
            self._searched.add(action)
        if observation.admissible and self._rng.random() < self._error:
            action = HASTY if HASTY in observation.admissible else self._rng.choice(observation.admissible)
        return thought, action

    def query(self, observation: Observation) -> str:
        """The expert's question."""
        return self._expert.query(observation)

    def reconstruct(self, observation: Observation, memories: Sequence[tuple[str, str]]) -> str:
        """The expert's reading of memories: it believes the first that applies."""
        return self._expert.reconstruct(observation, memories)

    def distill(self, goal: str, steps: Sequence[tuple[str, str]], won: bool) -> tuple[str, str] | None:
        """The expert's lesson."""
        return self._expert.distill(goal, steps, won)


@dataclass(frozen=True)
class ErringJudge:
    """Answers the prompts that verify, induce, distil and keep memories (the policy of a scripted engine).

    `fooled`: share of readings in which a verifier view takes a failure for a success or doubts a success; `slip`:
    share of episodes in which the writer mistakes what it saw; `reading` knows how logs of the environment are read."""

    reading: Reading
    fooled: float
    slip: float

    def __call__(self, prompt: str, rng: random.Random) -> str:
        """The JSON answer to a prompt of `memory.judge_prompts`, of `memory.managed`, or of mode distill (compact)."""
        if "Known memories:" in prompt:
            return json.dumps({"operations": _keep(prompt)})
        log = read_log(prompt)
        if "Score each criterion" in prompt:
            return json.dumps(self._verify(log, _CRITERION.findall(prompt), rng))
        told = re.findall(r"^Verifier: label (\w+)", prompt, re.MULTILINE)
        if not told and not re.search(r"^distill$", prompt, re.MULTILINE):
            raise EngineError(
                "The scripted agent has no answer to this prompt; stream with a model: engine=transformers."
            )
        lesson = self.reading.lesson(log, rng.random() < self.slip, rng)
        label = told[-1] if told else "verified_success" if self.reading.support(log) >= 0.5 else "verified_fail"
        records = [] if lesson is None else _records(lesson, label, rng)
        pairs = [{"situation": one["applicability"], "memory": one["content"]} for one in records]
        return json.dumps({"records": records} if told else {"memories": pairs})

    def _verify(self, log: Log, order: Sequence[str], rng: random.Random) -> dict[str, object]:
        """Scores from how well the log supports the result, each off by one now and then."""
        support = self.reading.support(log)
        if rng.random() < self.fooled:
            support = 0.75 if support < 0.5 else 0.5
        clean = {
            "task_completion": 1 + 4 * support,
            "evidence_consistency": 1 + 4 * support,
            "execution_validity": 5 if support >= 0.5 else 3,
            "generalizability": 4 if support >= 0.5 else 3,
        }
        scores = {name: _near(clean[name], rng) for name in order}
        worst = min(scores["task_completion"], scores["evidence_consistency"])
        label = "verified_success" if worst >= 4 else "verified_fail" if worst <= 2 else "uncertain"
        span = log.steps[-1][1] if log.steps else "NONE"
        criteria = {name: {"score": scores[name], "rationale": "seen", "evidence_span": span} for name in order}
        return {"criteria": criteria, "label": label, "failure_guard": "NONE"}


def judge_policy(reading: Reading, fooled: float, slip: float) -> Callable[[str, random.Random], str]:
    """The scripted engine's policy: it judges and writes."""
    return ErringJudge(reading, fooled, slip)


def read_log(prompt: str) -> Log:
    """The episode in a prompt of `memory.judge_prompts`, or of mode distill in the compact wording."""
    goal = re.search(r"Task: (.*)", prompt) or re.search(r"^(?:\w+: )?task (.*)", prompt, re.MULTILINE)
    closed = "\nRuntime status: closed\n" in prompt or "\nend done\n" in prompt
    steps = _STEP.findall(prompt) or _SHORT_STEP.findall(prompt)
    return Log(goal[1] if goal else "", tuple(steps), closed)


def _keep(prompt: str) -> list[dict[str, str]]:
    """What becomes of a new memory and of known ones that say the same, or of the same thing something else."""
    listed, new = prompt.split("Known memories:")[-1].split("\nNew memory: ")
    text, votes = new.splitlines()[0], '"agree"' in new
    thing = text.rsplit(" ", 1)[0]
    if same := [name for name, known in _KNOWN.findall(listed) if known == text]:
        return [{"op": "agree", "id": same[0]}] if votes else []
    others = [name for name, known in _KNOWN.findall(listed) if known.rsplit(" ", 1)[0] == thing]
    wrong = [{"op": "remove" if votes else "delete", "id": name} for name in others]
    return [*wrong, {"op": "add", "text": text}]


def _near(score: float, rng: random.Random) -> int:
    return min(max(round(score) + rng.choice(JITTER), 1), 5)


def _records(lesson: Lesson, label: str, rng: random.Random) -> list[dict[str, str]]:
    """The lesson as advice; of what it takes for a failure, the warning, and in half of the cases the advice too."""
    common = {"risk": "low", "reject_reason": "NONE", "evidence_span": lesson.evidence, "description": ""}
    advice = {
        **common,
        "type": "procedural_hint",
        "title": "",
        "content": lesson.content,
        "applicability": lesson.when,
        "guard_condition": "NONE",
    }
    warning = {
        **common,
        "type": "failure_avoidance",
        "title": "",
        "content": lesson.warning,
        "applicability": lesson.when,
        "guard_condition": lesson.guard,
    }
    if label != "verified_fail":
        return [advice]
    return [warning, advice] if rng.random() < 0.5 else [warning]
