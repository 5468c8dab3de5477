"""The quickstart's policy: a small transformer with a word-level tokenizer, built from a corpus in a second.

Why: with one token per word and per stock phrase of the environment, 0.4M parameters learn the whole protocol on two
CPU cores. The folder is an ordinary Hugging Face model, so every engine and trainer treats it like a large one. The
network is Qwen2's (biases on q, k, v) but saved as `llama`: for the type `qwen2`, `AutoTokenizer` puts Qwen's own
pre-tokenizer in place of the folder's and would read every text as nothing.
Invariants: equal config, corpus and seed give equal bytes; any text can be encoded (unknown words fall back to bytes),
and `decode(encode(x)) == x` for lower-case, single-spaced text up to spaces around punctuation and symbols.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from mh_train.config.schema import TinyConfig

PAD, END = "<|pad|>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
TAGS = ("<think>", "</think>", "<action>", "</action>", "<retrieve_memory>", "</retrieve_memory>", "<EMPTY>")
JSON_PARTS = ('{"memories":[{"situation":"', '","memory":"', '"},{"situation":"', '"}]}', '{"memories":[]}')
WORD = r"\w+(?:[-'/.]\w+)*"  # "in/on", "don't", "5.5" and "cup-a" are words: actions must come back as written
SPACE = "▁"
MAX_WORDS = 2048
CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|> {{ m.content }}{% if m.role == 'assistant' %}" + END + "{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def build_tiny(config: TinyConfig, corpus: Iterable[str], seed: int, folder: str | Path) -> Path:
    """Write the small policy as a Hugging Face folder: untrained float32 weights, tokenizer, chat template.

    `corpus` is text the policy will read or write (prompts, expert answers); its words become tokens. Raises
    `ValueError` when a head would not be 32 or 64 wide, the sizes that attention kernels on a CPU support.
    """
    head = config.hidden / config.heads
    if head not in (32, 64):
        raise ValueError(
            f"model.tiny.hidden / model.tiny.heads is {head:g}; make it 32 or 64, which CPU attention supports."
        )
    folder = Path(folder)
    tokenizer = _wrap(build_tokenizer(config.phrases, corpus), config.context)
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(_model_config(config, tokenizer))
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True
    )
    model.save_pretrained(folder)
    return folder


def build_tokenizer(phrases: Iterable[str], corpus: Iterable[str]) -> Tokenizer:
    """A tokenizer with one token per phrase and per word of `corpus`, and bytes for the rest.

    Text is lower-cased and its white space collapsed; tags and JSON parts keep their case. Phrases are matched before
    words, longest first. At most `MAX_WORDS` words, the most frequent first, ties by spelling.
    """
    splitter = Tokenizer(models.BPE())
    splitter.normalizer = normalizers.Sequence(
        [
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r"\s{2,}|[^\S ]"), " "),
            normalizers.Replace(" ,", ","),  # so that a list reads the same however its items were joined
        ]
    )
    wanted = sorted({splitter.normalizer.normalize_str(phrase).strip() for phrase in phrases} - {""})
    splitter.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_pattern(wanted)), behavior="removed", invert=True),
            pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always", split=False),
        ]
    )
    protocol = re.compile("|".join(re.escape(part) for part in (*TAGS, *JSON_PARTS)))
    counts = Counter(
        piece
        for text in corpus
        for part in protocol.split(text)
        for piece, _ in splitter.pre_tokenizer.pre_tokenize_str(splitter.normalizer.normalize_str(part))
    )
    basics = [SPACE + character for character in "0123456789" + ".,:;!?()[]\"'-/<>{}$#&"]
    frequent = sorted(counts, key=lambda piece: (-counts[piece], piece))[:MAX_WORDS]
    words = dict.fromkeys([*basics, *(SPACE + phrase.replace(" ", SPACE) for phrase in wanted), *sorted(frequent)])
    specials = [PAD, END, *ROLES, *TAGS, *JSON_PARTS]
    pieces = dict.fromkeys([*specials, *(f"<0x{byte:02X}>" for byte in range(256)), SPACE, *words])
    vocabulary = {piece: index for index, piece in enumerate(pieces)}

    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[], ignore_merges=True, byte_fallback=True))
    tokenizer.normalizer, tokenizer.pre_tokenizer = splitter.normalizer, splitter.pre_tokenizer
    tokenizer.decoder = _decoder()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in (PAD, END, *ROLES)])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in (*TAGS, *JSON_PARTS)])
    return tokenizer


def _pattern(phrases: Iterable[str]) -> str:
    """Phrases (whole words, longest first), then words, then single characters that are not white space.

    Phrases are grouped by their first word, so that the matcher tries few of them at each word.
    """
    rests: dict[str, list[str]] = {}
    for phrase in sorted(phrases, key=lambda phrase: (-len(phrase), phrase)):
        first = phrase.split(" ")[0]
        end = r"(?!\w)" if phrase[-1].isalnum() else ""
        rests.setdefault(first, []).append(re.escape(phrase.removeprefix(first)) + end)
    grouped = [f"{re.escape(first)}(?:{'|'.join(tails)})" for first, tails in rests.items()]
    return "|".join([*grouped, WORD, r"[^\w\s]"])


def _decoder() -> decoders.Decoder:
    """Pieces -> text: bytes joined, a space before every word and tag, none before closing punctuation."""
    closing = [decoders.Replace(SPACE + mark, mark) for mark in ".,:;!?)]["]
    tags = [decoders.Replace(tag, " " + tag) for tag in TAGS]
    opening = [decoders.Replace(mark + " ", mark) for mark in ("(", "[", '":"')]
    return decoders.Sequence(
        [
            decoders.ByteFallback(),
            *closing,
            *tags,
            decoders.Replace(SPACE, " "),
            decoders.Fuse(),
            *opening,
            decoders.Strip(" ", 1, 0),
        ]
    )


def _wrap(tokenizer: Tokenizer, context: int) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        chat_template=CHAT_TEMPLATE,
        model_max_length=context,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def _model_config(config: TinyConfig, tokenizer: PreTrainedTokenizerFast) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        intermediate_size=config.intermediate,
        max_position_embeddings=config.context,
        head_dim=config.hidden // config.heads,
        attention_bias=True,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        dtype="float32",
    )
