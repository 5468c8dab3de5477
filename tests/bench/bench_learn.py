"""The packed policy update against the same update padded, and against TRL's own log-prob paths.

All variants take the same rows (prompts of an episode share their beginning), the same model, loss and backward pass,
each in a process of its own, side by side with one thread each: CPU seconds, and the peak of resident memory over what
the process held before.

    packed      plan and pack under a token budget, the head on completion positions (what a run does)
    padded      rows in micro-batches, right-padded to the longest of each; the head on completion positions
    trl select  TRL's layout (prompts left-padded, completions right-padded to the longest of the batch),
                `logits_to_keep` and `selective_log_softmax`
    trl fused   the same layout through `GRPOTrainer._get_per_token_logps_and_entropies`

Run: `python tests/bench/bench_learn.py [--rows 16] [--budget 4096] [--micro 4] [--rounds 1]`.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import add_fused_lm_head, selective_log_softmax

from mh_train.config.schema import LearnConfig
from mh_train.learn.attention import packed_attention
from mh_train.learn.logprobs import Scorer, pack
from mh_train.learn.loss import policy_loss
from mh_train.learn.pack import plan
from mh_train.learn.rows import Row

CONFIG = LearnConfig(kl=0.0)
TURNS = 8
"""Rows per episode; the first share of a prompt is the episode's, the rest the turn's."""


def make_rows(asked: argparse.Namespace) -> list[Row]:
    """Turns of episodes: prompts of 200-900 tokens, the first 60 % shared within an episode; completions of 20-80."""
    rng = random.Random(0)
    rows = []
    for index in range(asked.rows):
        if index % TURNS == 0:
            shared = [rng.randrange(asked.vocab) for _ in range(900)]
        length = rng.randint(200, 900)
        own = [rng.randrange(asked.vocab) for _ in range(length - int(0.6 * length))]
        prompt = (*shared[: int(0.6 * length)], *own)
        answer = tuple(rng.randrange(asked.vocab) for _ in range(rng.randint(20, 80)))
        rows.append(Row(prompt, answer, rng.gauss(0, 1), (0.0,) * len(answer), f"t{index // TURNS}", "act"))
    return rows


def make_model(asked: argparse.Namespace) -> Any:
    """A random Qwen2 with the asked sizes."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=asked.vocab,
        hidden_size=asked.hidden,
        intermediate_size=4 * asked.hidden,
        num_hidden_layers=asked.layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        max_position_embeddings=2048,
    )
    return Qwen2ForCausalLM(config)


def learn(logprobs: Tensor, advantages: Tensor, tokens: int) -> None:
    """The loss of a run and its gradients; every variant ends here with the same (C,) numbers."""
    old = logprobs.detach()
    (policy_loss(logprobs, torch.zeros_like(old), old, old, advantages, CONFIG).loss / tokens).backward()


def packed(model: Any, rows: list[Row], asked: argparse.Namespace) -> int:
    """What a run does; tokens computed."""
    scorer, tokens = Scorer(model), sum(len(row.completion_ids) for row in rows)
    with packed_attention(model):
        for members in plan([len(row) for row in rows], asked.budget)[0]:
            batch = pack([rows[i] for i in members], torch.device("cpu"), torch.float32)
            learn(scorer(**batch.inputs())[0], batch.advantages, tokens)
    return sum(map(len, rows))


def padded(model: Any, rows: list[Row], asked: argparse.Namespace) -> int:
    """The same with right-padding per micro-batch."""
    tokens, computed = sum(len(row.completion_ids) for row in rows), 0
    for part in parts(rows, asked.micro):
        width = max(map(len, part))
        ids = torch.tensor([[*row.prompt_ids, *row.completion_ids, *[0] * (width - len(row))] for row in part])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in part])
        hidden = model.get_decoder()(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        states = torch.cat([hidden[i, len(row.prompt_ids) - 1 : len(row) - 1] for i, row in enumerate(part)])
        learn(selective_log_softmax(model.lm_head(states), answers(part)), advantages(part), tokens)
        computed += ids.numel()
    return computed


def trl_select(model: Any, rows: list[Row], asked: argparse.Namespace) -> int:
    """TRL's layout, logits of the completion positions, `selective_log_softmax`."""

    def logps(ids: Tensor, mask: Tensor, keep: int) -> Tensor:
        logits = model(input_ids=ids, attention_mask=mask, logits_to_keep=keep + 1, use_cache=False).logits[:, :-1]
        return selective_log_softmax(logits[:, -keep:], ids[:, -keep:])

    return trl(rows, asked, logps)


def trl_fused(model: Any, rows: list[Row], asked: argparse.Namespace) -> int:
    """TRL's layout through the trainer's own function."""
    add_fused_lm_head(model)
    trainer = SimpleNamespace(accelerator=SimpleNamespace(autocast=nullcontext, is_main_process=False))

    def logps(ids: Tensor, mask: Tensor, keep: int) -> Tensor:
        return GRPOTrainer._get_per_token_logps_and_entropies(trainer, model, ids, mask, keep)[0]

    return trl(rows, asked, logps)


def trl(rows: list[Row], asked: argparse.Namespace, logps: Callable[[Tensor, Tensor, int], Tensor]) -> int:
    """Prompts left-padded, completions right-padded to the longest of the whole batch."""
    tokens, computed = sum(len(row.completion_ids) for row in rows), 0
    left, right = max(len(row.prompt_ids) for row in rows), max(len(row.completion_ids) for row in rows)
    for part in parts(rows, asked.micro):
        pads = [(left - len(row.prompt_ids), right - len(row.completion_ids)) for row in part]
        both = list(zip(part, pads, strict=True))
        ids = torch.tensor([[*[0] * a, *row.prompt_ids, *row.completion_ids, *[0] * b] for row, (a, b) in both])
        mask = torch.tensor([[0] * a + [1] * len(row) + [0] * b for row, (a, b) in both])
        found = logps(ids, mask, right)
        live = torch.cat([found[i, : len(row.completion_ids)] for i, row in enumerate(part)])
        learn(live, advantages(part), tokens)
        computed += ids.numel()
    return computed


def parts(rows: list[Row], size: int) -> Iterator[list[Row]]:
    """Micro-batches in the order of the rows."""
    return (rows[start : start + size] for start in range(0, len(rows), size))


def answers(rows: list[Row]) -> Tensor:
    """(C,) completion tokens."""
    return torch.tensor([token for row in rows for token in row.completion_ids])


def advantages(rows: list[Row]) -> Tensor:
    """(C,) advantages."""
    return torch.tensor([row.advantage for row in rows for _ in row.completion_ids])


VARIANTS = {"packed": packed, "padded": padded, "trl select": trl_select, "trl fused": trl_fused}


class Peak(threading.Thread):
    """Samples resident memory (MB) until stopped, a thousand times a second at most."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.highest, self.running = resident(), True

    def run(self) -> None:
        while self.running:
            self.highest = max(self.highest, resident())
            time.sleep(0.001)


def resident() -> float:
    """Resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def measure(asked: argparse.Namespace) -> dict[str, float]:
    """One variant in this process, after a small update that warms everything up."""
    torch.set_num_threads(1)
    model, rows = make_model(asked), make_rows(asked)
    run = VARIANTS[asked.variant]
    run(model, rows[:1], asked)
    model.zero_grad()
    before, peak = resident(), Peak()
    peak.start()
    started = time.process_time()
    computed = run(model, rows, asked)
    seconds = time.process_time() - started
    peak.running = False
    peak.join()
    norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm().item()
    return {"seconds": seconds, "mb": peak.highest - before, "computed": computed, "norm": norm}


def main() -> None:
    """Print one line per variant: tokens per CPU second, peak memory, ratios against ours."""
    parser = argparse.ArgumentParser()
    defaults = {"rows": 16, "budget": 4096, "micro": 4, "rounds": 1, "hidden": 128, "layers": 4, "vocab": 16384}
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.variant:
        print(json.dumps(measure(asked)))
        return
    results: dict[str, list[dict[str, float]]] = {name: [] for name in VARIANTS}
    for _ in range(asked.rounds):
        command = [sys.executable, __file__, *sys.argv[1:], "--variant"]
        running = {name: subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in VARIANTS}
        for name, process in running.items():
            results[name].append(json.loads(process.communicate()[0].splitlines()[-1]))
    rows = make_rows(asked)
    tokens, targets = sum(map(len, rows)), sum(len(row.completion_ids) for row in rows)
    print(
        f"{len(rows)} rows, {tokens} tokens, {targets} of them completion; budget {asked.budget}, micro {asked.micro}"
    )
    ours = {key: statistics.median(one[key] for one in results["packed"]) for key in results["packed"][0]}
    for name, found in results.items():
        mine = {key: statistics.median(one[key] for one in found) for key in found[0]}
        print(
            f"{name:<11} {tokens / mine['seconds']:7.0f} tokens/CPU s  {mine['mb']:7.0f} MB  computed "
            f"{mine['computed']:6.0f}  time x{mine['seconds'] / ours['seconds']:.2f}  memory "
            f"x{mine['mb'] / ours['mb']:.2f}  |grad| {mine['norm']:.6f}"
        )


if __name__ == "__main__":
    main()
