"""Renders every turn: what never changes first, what changes most last, nothing longer than the prompt limit.

Why: act and reconstruct prompts of one step share all but their ends, so an engine's prefix cache answers most of each
prompt (measured on ALFWorld text: 61 % of prompt tokens, 16 % with the mode first).
Invariants: rendering never raises on any text; T, the head of o_t and the admissible actions are never cut while they
fit by themselves; a prompt that lost something says so (`Rendered.shortened`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mh_train.agent.parse import collapse
from mh_train.agent.presets import PRESETS, Preset
from mh_train.agent.types import MemoryHit, Step, Trajectory
from mh_train.engine.base import Codec, Message

LEAST_TEXT = 240
"""Characters of a state text that shortening leaves, two thirds of them at its head."""


@dataclass(frozen=True)
class Situation:
    """Where an episode stands: T, the steps already taken, o_t and its admissible actions."""

    goal: str
    steps: Sequence[Step]
    observation: str
    admissible: Sequence[str]


@dataclass(frozen=True)
class Rendered:
    """One prompt: its ids (at most the limit), the messages they encode, and whether anything was left out."""

    ids: tuple[int, ...]
    messages: tuple[Message, ...]
    shortened: bool = False


class Prompts:
    """All prompts of a run: preset, codec, limit in tokens, and w = `history` (observation, action) pairs."""

    def __init__(self, preset: str, codec: Codec, prompt_tokens: int, history: int, self_reasoning: str) -> None:
        self.preset = PRESETS[preset]
        self.codec = codec
        self.prompt_tokens = prompt_tokens
        self.history = history
        self.self_reasoning = self_reasoning

    def act(
        self, now: Situation, *, guidance: str | None = None, hits: Sequence[MemoryHit] = (), offer_memory: bool = False
    ) -> Rendered:
        """The act prompt of SPEC 1.

        `guidance` None: memory was not asked at this state. "": it was and nothing came of it, so the self-reasoning
        sentence stands in. `hits` go in verbatim (use mode replay). `offer_memory`: the mode line lets the policy ask.
        """
        preset = self.preset

        def blocks(pairs: int, cap: int) -> list[str]:
            after = _records(preset, hits, cap)
            if guidance:
                after.append(preset.guidance.format(guidance=guidance))
            elif guidance is not None and not hits:
                after.append(self.self_reasoning)
            mode = preset.act_or_ask if offer_memory else preset.act
            end = [mode, *after] if preset.memory_last else [*after, mode]
            return [*self._state(now, pairs, cap), _actions(preset, now.admissible), *end]

        return self._fit(blocks, min(len(now.steps), self.history), self.prompt_tokens)

    def reconstruct(self, now: Situation, hits: Sequence[MemoryHit]) -> Rendered:
        """The reconstruct prompt of SPEC 1: T, h_t and all retrieved records at once."""
        preset = self.preset

        def blocks(pairs: int, cap: int) -> list[str]:
            return [*self._comparison(now, pairs, cap), *_records(preset, hits, cap), preset.rewrite]

        return self._fit(blocks, min(len(now.steps), self.history), self.prompt_tokens)

    def distill(self, trajectory: Trajectory, per_trajectory: int, limit: int | None = None) -> Rendered:
        """The distill prompt of SPEC 4 over a finished episode; an over-long one keeps its head and tail steps.

        It tells how the episode ended, which the agent saw, and never the outcome, which only the evaluator knows.
        `limit` in tokens replaces the limit of act prompts.
        """
        preset, steps = self.preset, trajectory.steps
        end = (preset.cut_off if trajectory.truncated else preset.ended).format(count=len(steps))
        mode = preset.distill.format(most=per_trajectory)

        def blocks(kept: int, cap: int) -> list[str]:
            head, tail = steps[: (kept + 1) // 2], steps[len(steps) - kept // 2 :]
            gap = [preset.left_out.format(count=len(steps) - kept)] if kept < len(steps) else []
            told = [*_episode(preset, head, cap), *gap, *_episode(preset, tail, cap)]
            last = preset.last_observation.format(observation=_clip(trajectory.final_observation, cap))
            return [preset.task.format(goal=trajectory.goal), *told, last, end, mode]

        return self._fit(blocks, len(steps), self.prompt_tokens if limit is None else limit)

    def _state(self, now: Situation, pairs: int, cap: int) -> list[str]:
        preset = self.preset
        first = len(now.steps) - pairs
        lines = [_pair(preset, step, first + i) for i, step in enumerate(now.steps[first:])]
        return [
            preset.task.format(goal=now.goal),
            preset.steps.format(count=len(now.steps)),
            "\n".join([preset.history, *lines]) if lines and preset.history else "\n".join(lines),
            preset.observation.format(observation=_clip(now.observation, cap)),
        ]

    def _comparison(self, now: Situation, pairs: int, cap: int) -> list[str]:
        """What memories are compared with; presets with a `start` line show o_0 instead of the history."""
        preset = self.preset
        if not preset.start:
            return self._state(now, pairs, cap)
        start = now.steps[0].observation if now.steps else now.observation
        here = [preset.observation.format(observation=_clip(now.observation, cap))] if now.steps else []
        return [preset.task.format(goal=now.goal), preset.start.format(observation=_clip(start, cap)), *here]

    def _messages(self, blocks: Sequence[str]) -> tuple[Message, ...]:
        user = Message(role="user", content=self.preset.block_join.join(block for block in blocks if block))
        return (Message(role="system", content=self.preset.system), user) if self.preset.system else (user,)

    def _fit(self, blocks: Callable[[int, int], list[str]], pairs: int, limit: int) -> Rendered:
        """Render within `limit` tokens: history pairs go first, then the middles of state texts, then, only when what
        must stay is too long by itself, the middle of the token sequence."""

        def render(kept: int, cap: int) -> tuple[tuple[Message, ...], list[int]]:
            messages = self._messages(blocks(kept, cap))
            return messages, self.codec.encode(messages)

        messages, ids = render(pairs, 0)
        if len(ids) <= limit:
            return Rendered(tuple(ids), messages)
        kept = _largest(lambda n: len(render(n, 0)[1]) <= limit, 0, pairs - 1)
        cap = 0
        if kept < 0:
            kept = 0
            longest = len(self._messages(blocks(0, 0))[-1]["content"])
            cap = max(_largest(lambda n: len(render(0, n)[1]) <= limit, LEAST_TEXT, longest), LEAST_TEXT)
        messages, ids = render(kept, cap)
        if len(ids) > limit:
            ids = ids[: limit // 2] + ids[len(ids) - (limit - limit // 2) :]
        return Rendered(tuple(ids), messages, shortened=True)


def _pair(preset: Preset, step: Step, index: int) -> str:
    template = preset.pair if index else preset.first_pair
    return template.format(
        index=index + 1, observation=collapse(step.observation), action=step.action or preset.no_action
    )


def _episode(preset: Preset, steps: Sequence[Step], cap: int) -> list[str]:
    return [
        preset.episode_pair.format(
            observation=_clip(collapse(step.observation), cap), action=step.action or preset.no_action
        )
        for step in steps
    ]


def _actions(preset: Preset, admissible: Sequence[str]) -> str:
    return preset.actions.format(actions=preset.action_join.join(admissible)) if admissible else ""


def _records(preset: Preset, hits: Sequence[MemoryHit], cap: int) -> list[str]:
    """Hits by role, each role a block of its own; guards read as constraints."""
    blocks = []
    roles = (
        ("positive", preset.records, preset.record),
        ("summary", preset.summaries, preset.summary),
        ("guard", preset.guards, preset.guard),
    )
    for role, head, template in roles:
        lines = [
            template.format(memory=collapse(hit.memory), state=_clip(collapse(hit.source_state), cap))
            for hit in hits
            if hit.role == role
        ]
        if lines:
            blocks.append("\n".join([head, *lines] if head else lines))
    return blocks


def _clip(text: str, cap: int) -> str:
    """The text, or its head (two thirds) and tail when it is longer than `cap` characters; 0 means no cap."""
    if not cap or len(text) <= cap:
        return text
    head = cap * 2 // 3
    return f"{text[:head]} ... {text[len(text) - (cap - head) :]}"


def _largest(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The largest n in [low, high] with `fits(n)`, which holds up to some n and not above; low - 1 when none does."""
    while low <= high:
        middle = (low + high) // 2
        if fits(middle):
            low = middle + 1
        else:
            high = middle - 1
    return high
