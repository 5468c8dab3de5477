"""Prefill and decode one batch with a transformers model: ids in; ids and exact log-probs out.

Why a loop of our own: prompts are prefilled in buckets of like length without padding masks, rows that ended leave the
batch, draws are keyed by request, and log-probs are those of the trainer's forward pass at the same temperature.
Invariant: nothing is masked or rescaled before the log-softmax.
Measure: `python tests/bench/bench_engine.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from mh_train.engine.base import EngineError, FinishReason, Request
from mh_train.engine.kv import RowsCache, count_layers
from mh_train.engine.noise import uniforms
from mh_train.engine.sampling import SamplingRows, draw

PREFILL_TOKENS = {"cpu": 1024}  # most padded prompt tokens in one forward pass: what a CPU's cache holds, ...
PREFILL_TOKENS_ELSEWHERE = 16384  # ... and what fills a GPU
SHORTEST = 0.9  # a bucket's shortest prompt, as a share of its longest
COMPACT = 0.75  # finished rows leave once at most this share of rows is alive


@dataclass
class Decoded:
    """What one row drew: `ids` (n,) with the end token, `logprobs` (n,) nats, `watched` (n, w)."""

    ids: list[int]
    logprobs: list[float]
    finish_reason: FinishReason
    watched: list[list[float]] = field(default_factory=list)


@contextmanager
def ready_to_generate(model: Any) -> Iterator[None]:
    """Evaluation mode, SDPA attention and no autograd; afterwards the model is as the trainer left it."""
    training, attention = model.training, model.config._attn_implementation
    model.eval()
    if attention != "sdpa":
        model.set_attn_implementation("sdpa")
    try:
        with torch.inference_mode():
            yield
    finally:
        if attention != "sdpa":
            model.set_attn_implementation(attention)
        model.train(training)


class BatchDecoder:
    """Completes batches with one model; keeps nothing between batches. `max_context` is in tokens."""

    def __init__(self, model: Any, end_ids: Sequence[int], max_context: int) -> None:
        self.model, self.max_context = model, max_context
        self.layers = count_layers(model)
        self.ends = torch.tensor(list(end_ids))

    def run(self, requests: Sequence[Request]) -> list[Decoded]:
        """Complete all requests together, in their order. Long prompts first is fastest."""
        with ready_to_generate(self.model):
            return _Batch(self, requests).run()


class _Batch:
    """The state of one batch: `alive` (b,) are the request numbers of the rows still in the tensors."""

    def __init__(self, decoder: BatchDecoder, requests: Sequence[Request]) -> None:
        self.decoder, self.requests = decoder, requests
        device = next(decoder.model.parameters()).device  # asked each time: the trainer may move the model
        lengths = [len(request.prompt_ids) for request in requests]
        limits = [min(r.sampling.max_tokens, decoder.max_context - n) for r, n in zip(requests, lengths, strict=True)]
        self.width, self.steps = max(lengths), max(limits)
        self.ends = decoder.ends.to(device)
        self.alive = torch.arange(len(requests), device=device)
        self.lengths = torch.tensor(lengths, device=device)
        self.limits = torch.tensor(limits, device=device)
        self.keys = np.array([request.noise for request in requests], dtype=np.uint64)
        self.sampling = SamplingRows.of([request.sampling for request in requests], device)
        self.tokens = torch.zeros(len(requests), self.steps, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(len(requests), self.steps, device=device)
        self.counts = torch.zeros(len(requests), dtype=torch.long, device=device)
        self.stopped = torch.zeros(len(requests), dtype=torch.bool, device=device)
        self._watch(requests)

    def _watch(self, requests: Sequence[Request]) -> None:
        most = max(len(request.watch) for request in requests)
        padded = [[*request.watch, *[0] * (most - len(request.watch))] for request in requests]
        self.watch = torch.tensor(padded, device=self.alive.device) if most else None
        self.watched = torch.zeros(len(requests), self.steps if most else 0, most, device=self.alive.device)

    def run(self) -> list[Decoded]:
        logits = self._prefill()
        visible = torch.zeros(len(self.requests), self.width + self.steps, dtype=torch.bool, device=self.alive.device)
        visible[:, : self.width] = torch.arange(self.width, device=self.alive.device) < self.lengths[:, None]
        visible[:, self.width :] = True
        for step in range(self.steps):
            token, done = self._sample(logits, step)
            going = int((~done).sum())
            if not going:
                break
            if going <= COMPACT * len(done):
                rows = (~done).nonzero().squeeze(1)
                self._keep(rows)
                token, visible = token[rows], visible[rows]
            logits = self._forward(token, visible[:, : self.width + step + 1], step)
        return self._results()

    def _prefill(self) -> Tensor:
        """Run all prompts, like lengths together, right-padded under a causal mask; next-token logits (b, vocab).

        Equal prompts run once: all episodes of a group start from the same one.
        """
        asked = [request.prompt_ids for request in self.requests]
        prompts = list(dict.fromkeys(asked))
        self.cache = RowsCache(self.decoder.layers, len(prompts), self.width)
        logits = torch.cat([self._prefill_bucket(rows, prompts[rows]) for rows in self._buckets(prompts)])
        if len(prompts) < len(asked):
            place = {prompt: row for row, prompt in enumerate(prompts)}
            rows = torch.tensor([place[prompt] for prompt in asked], device=self.alive.device)
            self.cache.take(rows)
            logits = logits[rows]
        return logits

    def _buckets(self, prompts: Sequence[Sequence[int]]) -> list[slice]:
        limit = PREFILL_TOKENS.get(self.alive.device.type, PREFILL_TOKENS_ELSEWHERE)
        return buckets([len(prompt) for prompt in prompts], limit)

    def _prefill_bucket(self, rows: slice, prompts: Sequence[Sequence[int]]) -> Tensor:
        width = max(map(len, prompts))
        padded = [[*prompt, *[0] * (width - len(prompt))] for prompt in prompts]
        last = torch.tensor([len(prompt) - 1 for prompt in prompts], device=self.alive.device)
        wanted, place = last.unique(return_inverse=True)
        cache = DynamicCache(config=self.decoder.model.config)
        out = self.decoder.model(
            input_ids=torch.tensor(padded, device=self.alive.device),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=wanted,
        )
        self.cache.put(rows, cache)
        return out.logits[torch.arange(len(prompts), device=self.alive.device), place]

    def _sample(self, logits: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Draw token number `step` of every row; tokens (b,) and which rows have ended (b,)."""
        noise = torch.from_numpy(uniforms(self.keys, step)).to(logits.device)
        token, logprobs = draw(logits, self.sampling, noise)
        going = self.counts[self.alive] == step
        rows, drawn = self.alive[going], token[going]
        self.tokens[rows, step] = drawn
        self.logprobs[rows, step] = logprobs.gather(1, token[:, None]).squeeze(1)[going]
        if self.watch is not None:
            self.watched[rows, step] = logprobs[going].gather(1, self.watch[rows])
        stop = torch.isin(drawn, self.ends)
        self.stopped[rows] = stop
        self.counts[rows] = torch.where(stop | (step + 1 >= self.limits[rows]), -(step + 1), step + 1)
        return token, self.counts[self.alive] < 0

    def _keep(self, rows: Tensor) -> None:
        self.alive = self.alive[rows]
        self.keys = self.keys[rows.cpu().numpy()]
        self.sampling = self.sampling.take(rows)
        self.cache.take(rows)

    def _forward(self, token: Tensor, visible: Tensor, step: int) -> Tensor:
        positions = (self.lengths[self.alive] + step)[:, None]
        out = self.decoder.model(
            input_ids=token[:, None],
            position_ids=positions,
            attention_mask=visible[:, None, None, :],
            past_key_values=self.cache,
            use_cache=True,
        )
        return out.logits[:, -1]

    def _results(self) -> list[Decoded]:
        counts = self.counts.abs().tolist()
        tokens, logprobs = self.tokens.tolist(), self.logprobs.tolist()
        if not bool(torch.isfinite(self.logprobs).all()):
            raise EngineError(
                "The model's logits are not finite; its weights have diverged. Resume from an earlier checkpoint with "
                "a lower learning rate."
            )
        watched, stopped = self.watched.tolist(), self.stopped.tolist()
        return [
            Decoded(
                tokens[i][:n],
                logprobs[i][:n],
                "stop" if stopped[i] else "length",
                [row[: len(request.watch)] for row in watched[i][:n]] if request.watch else [],
            )
            for i, (n, request) in enumerate(zip(counts, self.requests, strict=True))
        ]


def buckets(lengths: Sequence[int], limit: int) -> list[slice]:
    """Cut neighbouring prompts of like length into forward passes of at most `limit` padded tokens."""
    cuts, start, longest, shortest = [0], 0, lengths[0], lengths[0]
    for row, length in enumerate(lengths):
        longest, shortest = max(longest, length), min(shortest, length)
        if row > start and (shortest < SHORTEST * longest or (row + 1 - start) * longest > limit):
            cuts.append(row)
            start, longest, shortest = row, length, length
    return [slice(a, b) for a, b in zip(cuts, [*cuts[1:], len(lengths)], strict=True)]
