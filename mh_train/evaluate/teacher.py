"""Counterfactual states by a teacher model, for environments that rules know too little about (MemHarness appendix B).

Why: what makes a free-text memory inapplicable takes understanding. The contract is the paper's: one JSON object with
`s_minus` and `flip`; what the teacher may do is checked, not trusted.
Invariants: every answer becomes a probe or is counted with the reason why not; the prompts hold no outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mh_train.agent.speaker import EngineSpeaker
from mh_train.agent.types import Trajectory
from mh_train.engine.base import Engine, Message
from mh_train.evaluate.edits import Case, Edit, fault
from mh_train.evaluate.probes import Probe, cases, noise, with_edit
from mh_train.memory.distill import json_values
from mh_train.memory.judge import EngineJudge, JudgeRequest

SYSTEM = """You edit one observation of a text environment so that a stored memory no longer fits it. Change exactly \
one fact that the memory depends on, and nothing else: keep names, numbers, length and layout as they are. The result \
must read like a real observation of that environment. The task and the memory stay fixed. Answer with one JSON object \
and nothing around it: {"s_minus": "the edited observation", "flip": "the fact that you changed, in one line"}"""
FORMATS = {
    "alfworld": "The environment is ALFWorld: short sentences that list things by kind and number.",
    "webshop": "The environment is WebShop: page segments with their quotes, [SEP] marks or [button] marks; change the "
    "text of one segment and keep every mark.",
}
MAX_TOKENS = 1024


async def teach(trajectories: Sequence[Trajectory], most: int, engine: Engine) -> tuple[list[Probe], Counter[str]]:
    """At most `most` probes whose s- the model behind `engine` wrote, and why answers were left out."""
    found = cases(trajectories, 3)[:most]
    judge = EngineJudge(EngineSpeaker(engine), engine)
    requests = [JudgeRequest("induce", _messages(p, c), noise(p), 0.0, MAX_TOKENS) for _, p, c in found]
    made: list[Probe] = []
    faults: Counter[str] = Counter()
    for (_, probe, case), answer in zip(found, await judge.ask(requests) if requests else [], strict=True):
        edit = read_edit(answer.text)
        why = "no JSON object with s_minus and flip" if edit is None else fault(case.state, edit.state)
        if edit is None or why:
            faults[why] += 1
        else:
            made.append(with_edit(probe, edit))
    return made, faults


def read_edit(text: str) -> Edit | None:
    """The edit of an answer; None when it does not keep to the contract. Never raises."""
    for value in json_values(text):
        if isinstance(value, dict) and isinstance(value.get("s_minus"), str) and isinstance(value.get("flip"), str):
            return Edit(value["s_minus"], " ".join(value["flip"].split()), "teacher")
    return None


def _messages(probe: Probe, case: Case) -> list[Message]:
    told = [
        FORMATS.get(probe.env, ""),
        f"Task: {case.goal}",
        f"State the memory was learned in: {case.source_state}",
        f"Memory: {case.memory}",
        f"Observation to edit:\n{case.state}",
    ]
    user = "\n\n".join(part for part in told if part)
    return [Message(role="system", content=SYSTEM), Message(role="user", content=user)]
