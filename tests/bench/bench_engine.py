"""The transformers engine against `generate` of transformers: same model, same prompts, same number of new tokens.

Both give the log-probs of what they drew. Prints wall and CPU seconds (medians over rounds that alternate) and ratios.
Run: `python tests/bench/bench_engine.py [--prompts 128] [--shortest 90] [--longest 170] [--new 10] [--threads 1]`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, logging

from mh_train.config.schema import TinyConfig
from mh_train.engine.base import Request, Sampling
from mh_train.engine.codec import HFCodec
from mh_train.engine.tiny import build_tiny
from mh_train.engine.transformers import TransformersEngine


def ours(engine: TransformersEngine, requests: list[Request]) -> int:
    """Complete all requests; new tokens."""

    async def main() -> int:
        return sum(len(answer.token_ids) for answer in await asyncio.gather(*map(engine.generate, requests)))

    return asyncio.run(main())


def theirs(model: Any, tokenizer: Any, requests: list[Request]) -> int:
    """The same through `generate`: left-padded, log-probs gathered from the raw logits; new tokens."""
    width, new = max(len(r.prompt_ids) for r in requests), requests[0].sampling.max_tokens
    pads = [width - len(r.prompt_ids) for r in requests]
    ids = torch.tensor([[0] * pad + list(r.prompt_ids) for pad, r in zip(pads, requests, strict=True)])
    mask = torch.tensor([[0] * pad + [1] * (width - pad) for pad in pads])
    out = model.generate(
        ids,
        attention_mask=mask,
        max_new_tokens=new,
        do_sample=True,
        top_k=0,
        eos_token_id=None,
        output_logits=True,
        return_dict_in_generate=True,
    )
    tokens = out.sequences[:, width:]
    logprobs = torch.stack(out.logits, 1).log_softmax(-1).gather(-1, tokens[..., None]).tolist()
    texts = tokenizer.batch_decode(tokens)
    return len(logprobs) * len(logprobs[0]) if texts else 0


def measure(run: Callable[[], int]) -> tuple[float, float, int]:
    """(wall seconds, CPU seconds, new tokens) of one run."""
    wall, cpu = time.perf_counter(), time.process_time()
    tokens = run()
    return time.perf_counter() - wall, time.process_time() - cpu, tokens


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("prompts", 128), ("shortest", 90), ("longest", 170), ("new", 10), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        build_tiny(TinyConfig(), [" ".join(f"word{i}" for i in range(150))], 0, folder)
        model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    rng = random.Random(0)
    sampling = Sampling(max_tokens=arguments.new)
    lengths = [rng.randint(arguments.shortest, arguments.longest) for _ in range(arguments.prompts)]
    requests = [
        Request(tuple(rng.choices(range(20, len(tokenizer)), k=length)), sampling, rng.getrandbits(64))
        for length in lengths
    ]
    engine = TransformersEngine(model, HFCodec(tokenizer), max_batch=arguments.prompts)
    runs = {"mh_train": lambda: ours(engine, requests), "generate": lambda: theirs(model, tokenizer, requests)}
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in runs}
    for number in range(arguments.rounds + 1):
        for name, run in runs.items():
            measured = measure(run)
            if number:  # the first round warms up
                found[name].append(measured)
    print(
        f"{arguments.prompts} prompts of {arguments.shortest}-{arguments.longest} tokens, {arguments.new} new tokens,"
    )
    print(f"{model.num_parameters():,} parameters, {arguments.threads} thread(s), medians of {arguments.rounds} rounds")
    medians = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in found.items()}
    for name, (wall, cpu, tokens) in medians.items():
        print(f"{name:10} {wall:6.3f} s wall  {cpu:6.3f} s CPU  {(sum(lengths) + tokens) / cpu:8.0f} tokens/CPU-s")
    ratios = [medians["generate"][i] / medians["mh_train"][i] for i in (0, 1)]
    print(f"generate / mh_train: wall {ratios[0]:.2f}, CPU {ratios[1]:.2f}")


if __name__ == "__main__":
    main()
