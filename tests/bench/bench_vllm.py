"""vLLM on this machine: against `transformers` on the same prompts, cached prefixes by layout, weight pushes by size.

Prompts are those of cold-start rows (`<run>/sft/rows.jsonl` of any run). Peers: the `transformers` engine with the same
weights; the same prompts with the task before the instructions, as a layout that ignores caches would have it.

Run: `python tests/bench/bench_vllm.py runs/quickstart [--prompts 64] [--tokens 24]`
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

from mh_train.config.schema import TinyConfig
from mh_train.engine.base import Engine, Request, Sampling
from mh_train.engine.codec import HFCodec
from mh_train.engine.serving import Serving
from mh_train.engine.tiny import build_tiny
from mh_train.engine.transformers import TransformersEngine
from mh_train.engine.vllm import VllmEngine
from mh_train.rollout.sft_rows import read_rows

Prompts = Sequence[tuple[int, ...]]


async def seconds(engine: Engine, prompts: Prompts, tokens: int) -> tuple[float, int]:
    """All prompts at once, `tokens` drawn for each; wall-clock and tokens that came."""
    asked = [Request(ids, Sampling(max_tokens=tokens), number) for number, ids in enumerate(prompts)]
    started = time.perf_counter()
    done = await asyncio.gather(*map(engine.generate, asked))
    return time.perf_counter() - started, sum(len(answer.token_ids) for answer in done)


async def hit_rate(engine: VllmEngine, prompts: Prompts) -> float:
    """Share of prompt tokens found in an empty cache when the prompts come one after the other."""
    engine.take_stats()
    for number, ids in enumerate(prompts):
        await engine.generate(Request(ids, Sampling(max_tokens=1), number))
    stats = engine.take_stats()
    return stats.extra["cached_tokens"] / stats.prompt_tokens


def task_first(prompts: Prompts) -> Prompts:
    """What all prompts begin with moves behind the rest."""
    shared = next(n for n, ids in enumerate(zip(*prompts, strict=False)) if len(set(ids)) > 1)
    return [(*ids[shared:], *ids[:shared]) for ids in prompts]


async def measure(run: Path, count: int, tokens: int) -> None:
    """Print the three tables."""
    folder = run / "sft" / "model"
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    codec = HFCodec(tokenizer)
    rows = [row for row in read_rows(run / "sft" / "rows.jsonl", codec) if row.kind == "act"][:count]
    prompts = [tuple(row.prompt_ids) for row in rows]
    context = min(max(map(len, prompts)) + tokens + 1, model.config.max_position_embeddings)
    async with VllmEngine(Serving(str(folder), context), codec, block_size=32) as vllm:
        await vllm.sync(model, 0)
        print(f"{len(prompts)} prompts of {sum(map(len, prompts)) // len(prompts)} tokens, {tokens} drawn for each")
        own = await hit_rate(vllm, prompts)
        await vllm.sync(model, 1)
        other = await hit_rate(vllm, task_first(prompts))
        print(f"cached prompt tokens: static part first {own:.0%}, task first {other:.0%}")
        await vllm.sync(model, 2)
        took, drawn = await seconds(vllm, prompts, tokens)
        peer, peer_drawn = await seconds(TransformersEngine(model, codec, fixed_order=False), prompts, tokens)
        print(f"tokens/s: vllm {drawn / took:.0f}, transformers {peer_drawn / peer:.0f}, ", end="")
        print(f"vllm/transformers {drawn / took / (peer_drawn / peer):.2f}", flush=True)
    print("million parameters  MB pushed  seconds")
    for hidden, layers in ((128, 2), (256, 4), (512, 8)):
        with tempfile.TemporaryDirectory() as where:
            sizes = TinyConfig(hidden=hidden, heads=hidden // 64, layers=layers, intermediate=4 * hidden)
            path = build_tiny(sizes, ["a"], 0, where)
            larger = AutoModelForCausalLM.from_pretrained(path)
            async with VllmEngine(Serving(str(path), 64), HFCodec(AutoTokenizer.from_pretrained(path))) as vllm:
                await vllm.sync(larger, 0)
                pushed = [await vllm.sync(larger, version) for version in (1, 2, 3)]
        millions = sum(parameter.numel() for parameter in larger.parameters()) / 1e6
        best = min(push["time/sync_s"] for push in pushed)
        print(f"{millions:18.1f} {pushed[0]['engine/sync_mb']:10.1f} {best:8.3f}", flush=True)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("run", type=Path)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=24)
    asked = parser.parse_args()
    asyncio.run(measure(asked.run, asked.prompts, asked.tokens))


if __name__ == "__main__":
    main()
