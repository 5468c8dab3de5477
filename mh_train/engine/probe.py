"""Does the engine generate with the trainer's weights? A few fixed prompts answer it after every weight update.

Why: an engine that silently keeps old weights still talks, and training against a stale policy looks like slow
learning. Invariant: what is compared are log-probs of tokens that the engine drew through its ordinary path.
"""

from __future__ import annotations

import asyncio

from mh_train.engine.base import Completion, Engine, EngineError, Message, Request, Sampling, noise_key

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.05, "float16": 0.05}
"""Mean |log-prob difference| in nats that rounding explains: 1e-6 was measured in float32 on a CPU."""
TOKENS = 16
SENTENCES = (
    "You are in the middle of a room. Your task is to put a clean mug in the cabinet.",
    "The shop shows ten results for a red cotton shirt under 40 dollars.",
    "Which of the two memories applies to what you see now?",
    "Count from one to ten.",
)


async def ask(engine: Engine, temperature: float) -> list[tuple[Request, Completion]]:
    """The fixed prompts with what the engine says to them, at most `TOKENS` tokens each."""
    sampling = Sampling(temperature, max_tokens=TOKENS)
    prompts: list[list[Message]] = [[{"role": "user", "content": sentence}] for sentence in SENTENCES]
    asked = [
        Request(tuple(engine.codec.encode(prompt)), sampling, noise_key("probe", number))
        for number, prompt in enumerate(prompts)
    ]
    return list(zip(asked, await asyncio.gather(*map(engine.generate, asked)), strict=True))


def check(gap: float, tolerance: float, version: int) -> None:
    """Raise `EngineError` when the mean gap in nats is not what rounding explains."""
    if not gap <= tolerance:
        raise EngineError(
            f"After the weights of update {version} were pushed, the engine's log-probs differ from the trainer's by "
            f"{gap:.2g} nats per token (engine.probe_tolerance: {tolerance:g}): it generates with other weights. Check "
            "engine.options (model, dtype, quantisation) and that every server belongs to this run alone; the last "
            "checkpoint is good."
        )
