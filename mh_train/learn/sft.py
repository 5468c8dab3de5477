"""Cold start: supervised fine-tuning on completions, with TRL's `SFTTrainer` on pre-tokenised rows (SPEC 6).

Why TRL: loop, schedule, accumulation and data parallelism are standard here. Rows of a batch are packed
(`padding_free`) under this project's attention, and the language-model head runs on completion positions only: TRL's
own loss scores every position where Triton is missing, half of a small model's time.
Invariants: prompts carry no loss; rows are never truncated; equal inputs and seed give equal weights on a CPU.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerBase, PrinterCallback, TrainerCallback
from trl import SFTConfig as TrlConfig
from trl import SFTTrainer

from mh_train.config.schema import SftConfig
from mh_train.learn.attention import packed_attention
from mh_train.learn.errors import LearnError
from mh_train.learn.lora import has_lora
from mh_train.learn.precision import demote, promote_trained

WARMUP = 0.03  # share of the steps before the cosine decay to 0
Progress = Callable[[int, int, Mapping[str, float]], None]


@dataclass(frozen=True)
class Example:
    """One demonstration: prompt and completion token ids as a rollout would render them; the end token included."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]


def train_sft(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    examples: Sequence[Example],
    config: SftConfig,
    seed: int = 0,
    progress: Progress | None = None,
    gradient_checkpointing: bool = False,
) -> dict[str, float]:
    """Fine-tune `model` in place; metrics `sft/...`. `progress(step, steps, {"loss", "rows/s"})` is called ~100 times.

    Rows longer than `max_tokens` are left out and counted: a cut row would lose its completion. Raises `LearnError`
    when no row is left or the effective batch does not divide by the number of processes.
    """
    kept = [e for e in examples if len(e.prompt_ids) + len(e.completion_ids) <= config.max_tokens and e.completion_ids]
    if not kept:
        raise LearnError(f"None of the {len(examples)} SFT rows fits sft.max_tokens={config.max_tokens}; raise it.")
    loaded = promote_trained(model)
    with tempfile.TemporaryDirectory() as scratch, packed_attention(model):
        arguments = _arguments(config, seed, len(kept), scratch, loaded, gradient_checkpointing)
        trainer = CompletionTrainer(
            model,
            arguments,
            train_dataset=Dataset.from_dict(
                {
                    "input_ids": [[*e.prompt_ids, *e.completion_ids] for e in kept],
                    "labels": [[-100] * len(e.prompt_ids) + list(e.completion_ids) for e in kept],
                }
            ),
            processing_class=tokenizer,
            callbacks=[_Report(progress, config.batch)] if progress else None,
        )
        trainer.remove_callback(
            PrinterCallback
        )  # it prints dicts across the progress bar, which shows the same numbers
        try:
            result = trainer.train()
        finally:
            vars(model).pop("forward", None)  # TRL patches the instance; a copy of it would run the original's weights
    if not has_lora(model):
        demote(model, loaded)
    model.eval()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    return {
        "sft/loss": float(losses[-1]),
        "sft/loss_mean": float(result.training_loss),
        "sft/rows": len(kept),
        "sft/rows_too_long": len(examples) - len(kept),
        "sft/steps": trainer.state.global_step,
        "time/sft_s": float(result.metrics["train_runtime"]),
    }


class CompletionTrainer(SFTTrainer):
    """`SFTTrainer` whose head runs on the positions that predict a completion token."""

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """Mean over the completion tokens of the whole batch; `inputs` are one packed row (1, T)."""
        labels = inputs.pop("labels")[0, 1:]
        positions = (labels != -100).nonzero().flatten()
        logits = model(**inputs, use_cache=False, logits_to_keep=positions).logits[0]
        total = len(positions) if num_items_in_batch is None else num_items_in_batch
        summed = cross_entropy(logits.float(), labels[positions], reduction="sum")
        return summed * self.accelerator.num_processes / total


def _arguments(
    config: SftConfig, seed: int, rows: int, scratch: str, loaded: torch.dtype, gradient_checkpointing: bool
) -> TrlConfig:
    cpu = not torch.cuda.is_available()
    steps = ceil(ceil(rows / config.batch) * config.epochs)
    arguments = TrlConfig(
        output_dir=scratch,
        num_train_epochs=config.epochs,
        learning_rate=config.lr,
        lr_scheduler_type="cosine",
        warmup_steps=int(WARMUP * steps),
        seed=seed,
        use_cpu=cpu,
        bf16=loaded is torch.bfloat16,
        gradient_checkpointing=gradient_checkpointing,
        padding_free=True,
        max_length=None,
        completion_only_loss=True,
        dataset_kwargs={"skip_prepare_dataset": True},
        dataloader_pin_memory=not cpu,
        logging_steps=max(1, steps // 100),
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    if config.batch % arguments.world_size:
        raise LearnError(f"sft.batch={config.batch} does not divide by {arguments.world_size} processes; change it.")
    arguments.per_device_train_batch_size = config.batch // arguments.world_size
    return arguments


class _Report(TrainerCallback):
    """Passes loss and speed on, whenever the trainer logs."""

    def __init__(self, progress: Progress, batch: int) -> None:
        self.progress, self.batch, self.started = progress, batch, time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Called by the trainer with the logged values."""
        if logs and "loss" in logs:
            speed = state.global_step * self.batch / max(1e-9, time.perf_counter() - self.started)
            self.progress(state.global_step, state.max_steps, {"loss": float(logs["loss"]), "rows/s": speed})
