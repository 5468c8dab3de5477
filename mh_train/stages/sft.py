"""Cold start: rows from the environment's expert (or a file), then supervised fine-tuning on the completions.

Why: the policy must know the protocol before rewards can teach it anything (SPEC 6). Invariant: rows are rendered by
the code that renders rollouts; a finished cold start is not done again. With LoRA an adapter is trained and merged.
Run: `mh-train sft experiment=quickstart`; `sft.data=FILE` takes rows of your own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mh_train.config import RunConfig
from mh_train.engine.codec import HFCodec
from mh_train.engine.load import load_model, load_tokenizer
from mh_train.engine.scripted import CharCodec
from mh_train.engine.tiny import build_tiny
from mh_train.files import write_json
from mh_train.learn.lora import add_lora, has_lora
from mh_train.learn.ranks import Ranks, make_accelerator
from mh_train.learn.sft import Example, train_sft
from mh_train.learn.sharding import is_sharded, whole_weights
from mh_train.rollout.coldstart import cold_start
from mh_train.rollout.panels import make_panel
from mh_train.rollout.sft_rows import SftRow, read_rows, sft_row, write_rows
from mh_train.run.folder import RunFolder
from mh_train.run.progress import bar, say
from mh_train.stages import parts

CHARACTERS = 1 << 20
"""Prompt limit while a tiny tokenizer does not exist yet: prompts are then measured in characters."""


def main(config: RunConfig) -> None:
    """Make the rows, make the tiny policy if it is asked for, train, and save `<run>/sft/model`."""
    ranks = Ranks(make_accelerator(config.learn.grad_clip))
    folder = parts.settle(config, ranks.main)
    if (folder.sft_model / "metrics.json").is_file():
        say(f"sft      {folder.sft_model} is there")
        return
    rows = ranks.from_main(cold_start_rows(config, folder) if ranks.main else [])
    path = config.model.path
    if path == "tiny":
        if ranks.main:
            build_tiny(config.model.tiny, texts(rows), config.seed, folder.base_model)
        path = ranks.from_main(str(folder.base_model))
        codec = HFCodec(load_tokenizer(path))
        rows = [sft_row(codec, row.kind, row.messages, row.completion) for row in rows]
    whole = replace(config.model, lora=replace(config.model.lora, quantize=""))  # what is merged must not be 4 bits
    model, tokenizer = load_model(whole, path)
    model = add_lora(model, config.model.lora, config.seed)
    examples = [Example(row.prompt_ids, row.completion_ids) for row in rows]
    with bar("sft", 100, every_s=5) as progress:

        def report(step: int, steps: int, values: Mapping[str, float]) -> None:
            progress.advance(values, steps=round(100 * step / steps) - progress.done)

        metrics = train_sft(
            model, tokenizer, examples, config.sft, config.seed, report, config.model.gradient_checkpointing
        )
    base = model.merge_and_unload() if has_lora(model) else model
    weights = whole_weights(base, ranks.main) if is_sharded(base) else None  # fsdp2; GPU only
    if ranks.main:
        base.save_pretrained(folder.sft_model, state_dict=weights)
        tokenizer.save_pretrained(folder.sft_model)
        write_json(folder.sft_model / "metrics.json", metrics)
    ranks.from_main(None)


def cold_start_rows(config: RunConfig, folder: RunFolder) -> list[SftRow]:
    """The rows of `sft.data`, those made earlier, or new ones from the expert (kept in `<run>/sft/rows.jsonl`)."""
    tiny = config.model.path == "tiny"
    codec = CharCodec() if tiny else HFCodec(load_tokenizer(config.model.path))
    given = Path(config.sft.data) if config.sft.data else folder.sft_data
    if config.sft.data or given.is_file():
        return read_rows(given, codec)
    env_class = parts.environment(config)
    panel = make_panel(env_class, config.env.train_split, config.env.options)
    prompts = parts.make_prompts(config, codec, CHARACTERS if tiny else 0)

    async def play() -> list[SftRow]:
        async with parts.pool(config) as pool:
            with bar("expert", config.sft.trajectories * 3 // 2, every_s=5) as progress:
                made = await cold_start(
                    config, env_class, panel.tasks, pool, prompts, lambda episode: progress.advance()
                )
        write_json(folder.sft_data.with_name("rows_metrics.json"), made.metrics)
        return made.rows

    rows = asyncio.run(play())
    write_rows(folder.sft_data, rows)
    return rows


def texts(rows: Sequence[SftRow]) -> list[str]:
    """Everything the policy will read and write in cold start: the corpus of a tiny tokenizer."""
    return [text for row in rows for text in (*(message["content"] for message in row.messages), row.completion)]
