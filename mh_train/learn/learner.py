"""One policy update from the rows of a rollout (SPEC 3): old log-probs, minibatches, clipped loss, AdamW.

Why an own loop: TRL's trainers take one row per prompt; here a rollout yields a varying number of rows (DESIGN 1).
Invariants: every rank gets the same rows and plans the same micro-batches; the loss is the exact token mean over the
minibatch of all ranks; rows that cannot move the policy count in that mean but are not computed; the order of rows
depends on (seed, update) alone, so a resumed run repeats it.
"""

from __future__ import annotations

import copy
import math
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import Tensor, nn

from mh_train.config.schema import LearnConfig
from mh_train.learn.attention import packed_attention
from mh_train.learn.errors import LearnError
from mh_train.learn.logprobs import MicroBatch, Scorer, pack
from mh_train.learn.lora import has_lora
from mh_train.learn.loss import policy_loss
from mh_train.learn.pack import plan
from mh_train.learn.precision import computing_in, promote_trained
from mh_train.learn.rows import Row, digest
from mh_train.learn.sharding import (
    divided_optimizer,
    divides_weights,
    is_sharded,
    like,
    shard_frozen,
    whole_optimizer,
    whole_weights,
)
from mh_train.learn.totals import Totals


@dataclass
class Minibatch:
    """This rank's rows of one optimizer step, by micro-batch; `tokens` counts the completion tokens of all ranks."""

    bins: list[list[Row]]
    tokens: int


@dataclass
class Micro:
    """A micro-batch and what was scored before the first step; `old` is None while the policy still is pi_old."""

    batch: MicroBatch
    old: Tensor | None
    reference: Tensor | None


class Learner:
    """Trains `model` (a transformers causal LM, or its peft wrapper) in place.

    The reference policy is the model as given here (with LoRA: the adapter switched off), so a resumed run builds the
    learner from the start policy and then calls `load_state_dict`. Trained bfloat16 weights become float32 and are
    computed under autocast: at the paper's learning rate of 1e-6 an update vanishes in bfloat16.
    """

    def __init__(self, model: nn.Module, config: LearnConfig, accelerator: Accelerator, seed: int = 0) -> None:
        self.model: Any = model.to(accelerator.device)
        self.config, self.accelerator, self.seed = config, accelerator, seed
        self.reference: Any = None
        if config.kl > 0 and not has_lora(model):
            self.reference = copy.deepcopy(self.model).requires_grad_(False).eval()
        self.dtype = promote_trained(model)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        betas = (config.betas[0], config.betas[1])
        optimizer = torch.optim.AdamW(trained, lr=config.lr, betas=betas, weight_decay=config.weight_decay)
        self.scorer, self.optimizer = accelerator.prepare(Scorer(model), optimizer)
        self.optimizer_steps = 0
        self.deepspeed = accelerator.distributed_type == DistributedType.DEEPSPEED  # GPU only
        self.sharded = is_sharded(model)
        self.reference_scorer = None if self.reference is None else Scorer(self.reference)
        if self.reference_scorer is not None and divides_weights(accelerator):
            shard_frozen(self.reference_scorer, self.reference)

    def update(self, rows: Sequence[Row], update_index: int, temperature: float = 1.0) -> dict[str, float]:
        """One pass over the rows, sampled at `temperature`; metrics `learn/...` and `time/...`.

        Raises `LearnError` when ranks hold different rows, or a gradient is not finite (that step is not taken).
        """
        if self.accelerator.device.type == "cuda":
            torch.cuda.set_device(self.accelerator.device)  # a thread has its own; staleness makes another
        self._check_same_on_all_ranks(rows)
        started = time.perf_counter()
        minibatches = self._minibatches(rows, update_index)
        totals = Totals(self.accelerator)
        with self.autocast(), packed_attention(self.model):
            scored = [self._score(minibatch, index > 0, temperature) for index, minibatch in enumerate(minibatches)]
            scored_at = time.perf_counter()
            for minibatch, micros in zip(minibatches, scored, strict=True):
                self._step(minibatch, micros, temperature, totals)
        if self.sharded:
            self.scorer.reshard()  # a pass without backward leaves embeddings and head gathered
        return {
            **totals.metrics(),
            "learn/rows": len(rows),
            "learn/tokens": sum(map(len, rows)),
            "learn/completion_tokens": sum(len(row.completion_ids) for row in rows),
            "time/score_s": scored_at - started,
            "time/optimize_s": time.perf_counter() - scored_at,
        }

    def gap(self, rows: Sequence[Row], temperature: float) -> float:
        """Mean |log pi - sampler's log-prob| in nats over the completion tokens of rows sampled at `temperature`."""
        self.model.eval()
        batch = pack(rows, self.accelerator.device, torch.promote_types(self.dtype, torch.float32))
        with torch.no_grad(), self.autocast(), packed_attention(self.model):
            logprobs = self.scorer(**batch.inputs(), temperature=temperature)[0]
        return float((logprobs - batch.sampler).abs().mean())

    def autocast(self) -> AbstractContextManager[Any]:
        """The precision the model was loaded in; an engine that shares the model object generates under it too."""
        return computing_in(self.dtype, self.accelerator.device)

    def state_dict(self) -> dict[str, Any]:
        """Trained weights, optimizer and step count: all that `update` changes. Divided ones are gathered: every rank
        calls this, and rank 0 alone has them in full."""
        if self.deepspeed:
            return {"optimizer_steps": self.optimizer_steps}  # the rest is in the folder of `save_divided`
        main = self.accelerator.is_main_process
        return {
            "weights": whole_weights(self.model, main, trained_only=True),
            "optimizer": whole_optimizer(self.optimizer.state_dict(), main),
            "optimizer_steps": self.optimizer_steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict()`. Raises `LearnError` when it belongs to another model."""
        self.optimizer_steps = state["optimizer_steps"]
        if self.deepspeed:
            return
        own = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        saved = state["weights"]
        wrong = sorted(set(own) ^ set(saved)) or [n for n, p in own.items() if p.shape != saved[n].shape]
        if wrong:
            raise LearnError(f"The checkpoint is of another model: {len(wrong)} parameters differ, first {wrong[0]}.")
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(like(saved[name], parameter))
        self.optimizer.load_state_dict(divided_optimizer(state["optimizer"], self.optimizer))

    def save_divided(self, folder: Path) -> None:
        """What only its owner can write: DeepSpeed's part of weights and optimizer on every rank. Others write none."""
        if self.deepspeed:
            self.scorer.save_checkpoint(str(folder / "deepspeed"))

    def load_divided(self, folder: Path) -> None:
        """Continue from `save_divided`."""
        if self.deepspeed:
            self.scorer.load_checkpoint(str(folder / "deepspeed"))

    def _minibatches(self, rows: Sequence[Row], update_index: int) -> list[Minibatch]:
        """Shuffled minibatches of at most `minibatch_turns` rows, equal in size within one row."""
        order = list(range(len(rows)))
        random.Random(f"{self.seed}:{update_index}").shuffle(order)
        count = math.ceil(len(rows) / self.config.minibatch_turns)
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        silent_rows_matter = self.config.kl > 0 or self.config.entropy > 0
        minibatches = []
        for part in range(count):
            members = [rows[i] for i in order[part * len(rows) // count : (part + 1) * len(rows) // count]]
            live = [row for row in members if row.advantage != 0 or silent_rows_matter]
            bins = plan([len(row) for row in live], self.config.token_budget, world)[rank]
            tokens = sum(len(row.completion_ids) for row in members)
            minibatches.append(Minibatch([[live[i] for i in members] for members in bins], tokens))
        return minibatches

    def _score(self, minibatch: Minibatch, changed: bool, temperature: float) -> list[Micro]:
        """pi_old and pi_ref of a minibatch, without gradient; the first one (`changed` False) meets pi_old itself."""
        self.model.eval()
        device, dtype = self.accelerator.device, torch.promote_types(self.dtype, torch.float32)
        micros = []
        with torch.no_grad():
            for rows in minibatch.bins:
                batch = pack(rows, device, dtype)
                old = self.scorer(**batch.inputs(), temperature=temperature)[0] if changed else None
                micros.append(Micro(batch, old, self._reference(batch, temperature)))
        return micros

    def _reference(self, batch: MicroBatch, temperature: float) -> Tensor | None:
        if self.config.kl <= 0:
            return None
        if has_lora(self.model):
            with self.model.disable_adapter():
                return self.scorer(**batch.inputs(), temperature=temperature)[0]
        assert self.reference_scorer is not None
        with packed_attention(self.reference):
            return self.reference_scorer(**batch.inputs(), temperature=temperature)[0]

    def _step(self, minibatch: Minibatch, micros: list[Micro], temperature: float, totals: Totals) -> None:
        """One optimizer step: gradients of all micro-batches, clipped. No step without a row that carries a signal."""
        if not micros:
            return
        self.model.train()
        # data-parallel wrappers average gradients over ranks; the loss is a sum over them
        scale = self.accelerator.num_processes / minibatch.tokens
        for micro in micros:
            batch, last = micro.batch, micro is micros[-1]
            self.accelerator.gradient_state._set_sync_gradients(last)  # DeepSpeed steps in the backward of the last one
            with nullcontext() if last else self.accelerator.no_sync(self.scorer):
                logprobs, entropy = self.scorer(
                    **batch.inputs(), temperature=temperature, entropy_grad=self.config.entropy > 0
                )
                old = logprobs.detach() if micro.old is None else micro.old
                result = policy_loss(
                    logprobs, entropy, old, batch.sampler, batch.advantages, self.config, micro.reference, batch.turns
                )
                self.accelerator.backward(result.loss * (scale * batch.weight))
            if batch.weight:
                totals.add(result, len(batch.targets))
        norm = float(self.accelerator.clip_grad_norm_(self.scorer.parameters(), self.config.grad_clip))
        if not math.isfinite(norm):
            self.optimizer.zero_grad()
            raise LearnError(
                f"The gradient of optimizer step {self.optimizer_steps + 1} is not finite; the step was not taken. "
                "Resume from the last checkpoint with a lower learn.lr, or set learn.dual_clip=3."
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.optimizer_steps += 1
        self.model.eval()
        totals.step(norm, minibatch.tokens)

    def _check_same_on_all_ranks(self, rows: Sequence[Row]) -> None:
        """Different rows on two ranks would hang the next exchange; say so instead."""
        if self.accelerator.num_processes == 1:
            return
        mine = torch.tensor([digest(rows)], device=self.accelerator.device)
        if len(set(self.accelerator.gather(mine).tolist())) > 1:
            raise LearnError("Ranks were given different rows; broadcast the rollout of rank 0 before the update.")
