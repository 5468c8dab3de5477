"""Counts the tokens that keeping memories costs, by turn kind (distil, verify, induce): prompts and completions.

Why: governance pays for itself only if its own tokens are on the bill (MemGuard table 9). Invariant: what is said
passes through unchanged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from mh_train.agent.speaker import Speaker, TurnRequest
from mh_train.engine.base import Completion
from mh_train.memory.judge import EngineJudge, Judge


@dataclass
class Bill:
    """Tokens of everything that was said through the speakers and judges it handed out."""

    tokens: Counter[str] = field(default_factory=Counter)

    def speaker(self, speaker: Speaker) -> Speaker:
        """The speaker, counted."""
        return _Counted(speaker, self.tokens)

    def judge(self, judge: Judge | None) -> Judge | None:
        """A judge on an engine, counted; any other one as it is, since its tokens are not known here."""
        if isinstance(judge, EngineJudge):
            return EngineJudge(self.speaker(judge.speaker), judge.engine, judge.codec)
        return judge

    def metrics(self) -> dict[str, float]:
        """`memory/tokens_<kind>` of every kind that was asked."""
        return {f"memory/tokens_{kind}": float(count) for kind, count in sorted(self.tokens.items())}


@dataclass(frozen=True)
class _Counted:
    speaker: Speaker
    tokens: Counter[str]

    async def speak(self, turn: TurnRequest) -> Completion:
        answer = await self.speaker.speak(turn)
        self.tokens[turn.kind] += len(turn.prompt_ids) + len(answer.token_ids)
        return answer
