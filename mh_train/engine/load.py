"""Opens a model and its tokenizer from a Hugging Face folder or hub id; whatever is wrong becomes one sentence.

Why: a missing folder, a model without tokenizer or an unreachable hub are told before anything else is built.
Invariant: the tokenizer that comes back has a chat template and an end token (checked through `HFCodec`).
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

from mh_train.config.schema import ModelConfig
from mh_train.engine.codec import HFCodec, ModelError
from mh_train.extras import install

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")


def load_model(config: ModelConfig, path: str | Path | None = None) -> tuple[Any, Any]:
    """(model, tokenizer) from `path`, or from `config.path` when it is None.

    The model is on the CPU in `config.dtype`, in evaluation mode, with gradient checkpointing switched on if asked for;
    LoRA adapters are the learner's. Raises `ModelError`.
    """
    source = str(config.path if path is None else path)
    if source == "tiny":
        raise ModelError("model=tiny is built by the cold start: run `mh-train sft` first, or give its folder.")
    tokenizer = load_tokenizer(source)
    try:
        dtype = getattr(torch, config.dtype)
        model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, **_quantised(config, dtype))
    except (OSError, ValueError, SafetensorError) as error:  # missing, unknown or torn
        raise ModelError(_advice(source, "the model", error)) from error
    if config.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.eval(), tokenizer


def _quantised(config: ModelConfig, dtype: torch.dtype) -> dict[str, Any]:
    """Arguments that load the linear maps in 4 bits onto this process's GPU (`model.lora.quantize`); CUDA only."""
    if not config.lora.quantize:
        return {}
    if not torch.cuda.is_available():
        raise ModelError("model.lora.quantize=nf4 needs a CUDA GPU; use lora=all without one.")
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ModelError(f"model.lora.quantize=nf4 needs bitsandbytes: {install('qlora')}.")
    nf4 = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
    )
    return {"quantization_config": nf4, "device_map": {"": int(os.environ.get("LOCAL_RANK", "0"))}}


def load_tokenizer(source: str | Path) -> Any:
    """The tokenizer of a folder or hub id, ready for chat. Raises `ModelError`."""
    folder = Path(source)
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise ModelError(f"{folder} is no Hugging Face model: it has no config.json. Give the folder that holds one.")
    if folder.is_dir() and not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise ModelError(
            f"{folder} has no tokenizer; copy tokenizer.json and tokenizer_config.json of the base model into it."
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(source))
    except (OSError, ValueError) as error:
        raise ModelError(_advice(str(source), "the tokenizer", error)) from error
    HFCodec(tokenizer)
    return tokenizer


def end_ids(model: Any) -> list[int]:
    """The end tokens that a model's generation config names, as a list."""
    named = model.generation_config.eos_token_id if model.generation_config is not None else None
    return [] if named is None else list(named) if isinstance(named, (list, tuple)) else [named]


def _advice(source: str, what: str, error: Exception) -> str:
    if Path(source).is_dir():
        return f"{source}: {what} cannot be read ({_first_line(error)}); the folder is incomplete, copy it again."
    if source.startswith(("/", "./", "../", "~")) or source.count("/") != 1:
        return f"There is no model folder {source}; correct model.path (a Hugging Face folder, or a hub id owner/name)."
    if os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0"):
        return (
            f"{source} is neither a folder nor in the Hugging Face cache, and HF_HUB_OFFLINE forbids downloading; "
            f"fetch it on a machine with network (`hf download {source}`) or set model.path to a folder."
        )
    return f"{source}: {what} could not be fetched from the hub ({_first_line(error)}); check the name and the network."


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
