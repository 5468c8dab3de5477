"""Policies without a model, for tests: a function from prompt text to completion text, with proper token ids.

Why: the episode loop, the bank and the run folder must be testable in milliseconds and against every kind of nonsense.
Invariant: a completion depends on the prompt and on `request.noise` alone, and its text decodes its ids.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from mh_train.engine.base import Completion, Engine, EngineStats, Message, Request

Policy = Callable[[str, random.Random], str]

ADVERSARIAL = (
    "",
    " \n\t",
    "<think>",
    "</think></action>",
    "<think></think><action></action>",
    "<think>a</think><action>look</action><action>look</action>",
    "<think>a</think><action>look</action><retrieve_memory>where</retrieve_memory>",
    "<think>a<think>b</think></think><action>go <action>to</action></action>",
    "<action>look</action><think>too late</think>",
    "<think>a</think><action>look",
    "<THINK>a</THINK><ACTION>LOOK</ACTION>",
    "<EMPTY>",
    "<EMPTY> but also <EMPTY>",
    "no tags at all",
    "<think>我要去冰箱</think><action>look</action>",
    "<think>Иду к холодильнику</think><action>look</action>",
    "<think>a\x00b\x1b[31m\x7f\u202e\ufeff</think><action>\x00</action>",
    "<think>a</think><action>click[\ud7ff🧊𝔘]</action>",
    '{"memories":[{"situation":"a"',
    '{"memories":"none"}',
    "```json\n[]\n```",
    "<think>" + "x" * 20_000 + "</think><action>look</action>",
    "<action>" * 2_000,
    "<retrieve_memory>" + "q " * 5_000 + "</retrieve_memory>",
)
"""Completions that have broken parsers: wrong nesting, other scripts, control characters, huge or empty texts."""


class CharCodec:
    """A reversible codec of one id per character (its code point plus one); 0 ends a completion."""

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Chat messages -> ids (p,) of `role: content` lines and an open assistant line."""
        lines = [f"{message['role']}: {message['content']}\n" for message in messages]
        return self.encode_text("".join(lines) + "assistant: ")

    def encode_text(self, text: str) -> list[int]:
        """Text -> ids (n,)."""
        return [ord(character) + 1 for character in text]

    def decode(self, ids: Sequence[int]) -> str:
        """Ids (n,) -> text; the end id is skipped."""
        return "".join(chr(index - 1) for index in ids if index)

    def end_ids(self) -> list[int]:
        """The one end id."""
        return [0]


class ScriptedEngine(Engine):
    """Answers with `policy(prompt text, random generator keyed by the request)`; log-probs are all 0 (certain)."""

    name = "scripted"

    def __init__(self, policy: Policy, max_context: int = 1 << 20) -> None:
        self.policy, self.max_context, self.codec = policy, max_context, CharCodec()
        self._stats = EngineStats()

    async def generate(self, request: Request) -> Completion:
        """The policy's text, cut at `max_tokens` characters (finish reason "length" when it was longer)."""
        text = self.policy(self.codec.decode(request.prompt_ids), random.Random(request.noise))
        ids = [*self.codec.encode_text(text), *self.codec.end_ids()][: request.sampling.max_tokens]
        stopped = bool(ids) and ids[-1] == 0
        self._stats.requests += 1
        self._stats.prompt_tokens += len(request.prompt_ids)
        self._stats.completion_tokens += len(ids)
        watched = tuple(tuple(0.0 if token == one else float("-inf") for one in request.watch) for token in ids)
        return Completion(
            tuple(ids),
            (0.0,) * len(ids),
            self.codec.decode(ids),
            "stop" if stopped else "length",
            watched if request.watch else (),
        )

    def take_stats(self) -> EngineStats:
        """Counters since the previous call, reset."""
        taken, self._stats = self._stats, EngineStats()
        return taken


def look_policy(prompt: str, rng: random.Random) -> str:
    """The shortest well-formed answer, whatever the prompt."""
    return "<think>Look.</think><action>look</action>"


def adversarial_policy(prompt: str, rng: random.Random) -> str:
    """One of `ADVERSARIAL`, whatever the prompt."""
    return rng.choice(ADVERSARIAL)


def random_admissible_policy(actions: Callable[[str], Sequence[str]]) -> Policy:
    """A well-formed random walk; `actions` reads the admissible actions out of a prompt (prompts are the caller's)."""

    def policy(prompt: str, rng: random.Random) -> str:
        choices = actions(prompt)
        if not choices:
            return "<EMPTY>"
        return f"<think>Try something.</think><action>{rng.choice(choices)}</action>"

    return policy


def listed_actions(prompt: str) -> list[str]:
    """The action list of a prompt: the last line that starts with "admissible actions:", split at ", "."""
    lines = re.findall(r"^admissible actions:\s*(.+)$", prompt, flags=re.IGNORECASE | re.MULTILINE)
    return [action.strip() for action in lines[-1].split(", ")] if lines else []
