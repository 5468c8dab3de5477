"""Small real models and rows that the learner's tests share."""

import random

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from mh_train.learn.rows import Row

VOCAB = 512


def tiny_model(dtype: torch.dtype = torch.float32, seed: int = 0, scale: float = 4.0) -> Qwen2ForCausalLM:
    """A random two-layer Qwen2; weights larger than usual, so that its predictions are far from uniform."""
    config = Qwen2Config(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        tie_word_embeddings=True,
        max_position_embeddings=1024,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(config)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.mul_(scale)
    return model.to(dtype).eval()


def make_rows(
    count: int, seed: int = 0, prompt: tuple[int, int] = (3, 40), completion: tuple[int, int] = (1, 12)
) -> list[Row]:
    """Random rows with spread in length and advantage."""
    rng = random.Random(seed)

    def tokens(bounds: tuple[int, int]) -> tuple[int, ...]:
        return tuple(rng.randrange(VOCAB) for _ in range(rng.randint(*bounds)))

    rows = []
    for index in range(count):
        answer = tokens(completion)
        sampler = tuple(rng.uniform(-8, -4) for _ in answer)
        rows.append(Row(tokens(prompt), answer, rng.gauss(0, 1), sampler, f"t{index // 4}", "act"))
    return rows
