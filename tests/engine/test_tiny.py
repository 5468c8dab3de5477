"""The quickstart's model: an ordinary folder, a lossless tokenizer, one token per known word."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_corpus import CORPUS, PHRASES
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from mh_train.config.schema import TinyConfig
from mh_train.engine.codec import HFCodec
from mh_train.engine.tiny import TAGS, build_tiny, build_tokenizer

TOKENIZER: Tokenizer = build_tokenizer(PHRASES, CORPUS)


def pieces(text: str) -> list[str]:
    return [piece.replace("▁", " ").strip() for piece in TOKENIZER.encode(text).tokens]


def rewritten(text: str) -> str:
    return TOKENIZER.decode(TOKENIZER.encode(text).ids)


def test_a_phrase_is_one_token_and_so_is_every_known_word() -> None:
    assert pieces("You arrive at cabinet 1. On the cabinet 1, you see a bread 1, and a mug 2.") == [
        *("you arrive at", "cabinet", "1", ". on the", "cabinet", "1", ", you see a", "bread", "1", ", and a", "mug"),
        *("2", "."),
    ]
    assert pieces("<think> find bread </think><action>go to cabinet 1</action>") == [
        *("<think>", "find", "bread", "</think>", "<action>", "go to", "cabinet", "1", "</action>")
    ]


def test_phrases_match_whole_words_only() -> None:
    assert "go to" not in pieces("undergo to go tofu")
    assert pieces("go to") == ["go to"]
    assert pieces("1 , go to fridge") == pieces("1, go to fridge") == ["1", ", go to", "fridge"]


@pytest.mark.parametrize(
    "text",
    [
        "<think> find bread </think> <action> go to cabinet 1 </action>",
        "<think> find bread </think> <retrieve_memory> toaster bread </retrieve_memory>",
        "<EMPTY>",
        '{"memories":[{"situation":"room with toaster","memory":"bread was in drawer 1"}]}',
        '{"memories":[]}',
        "put a hot-dog in/on shelf 11, don't look.",
        "click[buy now]",
        "size 5.5: it's 日本 (naïve) y̆ 🧊!",
    ],
)
def test_what_the_protocol_needs_comes_back_exactly(text: str) -> None:
    assert rewritten(text) == text


WORDS = st.sampled_from(["bread", "cabinet", "go to", "you arrive at", "mug", "1", "22", "xyzzy", "in/on", *TAGS])


@given(st.lists(WORDS | st.text("abcdefghijklmnopqrstuvwxyz0123456789äß中", min_size=1), max_size=12))
def test_lower_case_single_spaced_text_comes_back_exactly(words: list[str]) -> None:
    text = " ".join(words)
    assert rewritten(text) == text


@given(st.text())
def test_any_text_can_be_encoded_and_what_comes_back_stays(text: str) -> None:
    once = rewritten(text)
    assert rewritten(once) == once


@given(st.lists(st.integers(0, TOKENIZER.get_vocab_size() - 1)))
def test_any_ids_can_be_decoded(ids: list[int]) -> None:
    assert isinstance(TOKENIZER.decode(ids), str)


def test_the_folder_is_read_back_by_the_ordinary_classes(tiny_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    text = "<think> Find bread. </think> xyzzy"
    assert tokenizer(text, add_special_tokens=False)["input_ids"] == TOKENIZER.encode(text).ids
    model = AutoModelForCausalLM.from_pretrained(tiny_folder)
    assert model.config.vocab_size == len(tokenizer) < 500
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert 300_000 < model.num_parameters() < 450_000


def test_the_chat_template_ends_where_the_answer_starts(tiny_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    codec = HFCodec(tokenizer)
    chat: list[Any] = [{"role": "system", "content": "act"}, {"role": "user", "content": "go to fridge"}]
    marks = tokenizer.convert_ids_to_tokens(codec.encode(chat))
    assert [mark for mark in marks if mark.startswith("<|")] == ["<|system|>", "<|user|>", "<|assistant|>"]
    assert marks[-1] == "<|assistant|>"
    whole = tokenizer.apply_chat_template([*chat, {"role": "assistant", "content": "look"}], tokenize=False)
    assert codec.encode_text(whole) == [*codec.encode(chat), *codec.encode_text("look"), *codec.end_ids()]


def folder_digest(folder: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir()))).hexdigest()


def test_equal_seeds_give_equal_bytes_and_other_seeds_other_weights(tmp_path: Path, tiny_folder: Path) -> None:
    config = TinyConfig(phrases=PHRASES)
    assert folder_digest(build_tiny(config, CORPUS, 0, tmp_path / "same")) == folder_digest(tiny_folder)
    other = build_tiny(config, reversed(CORPUS), 1, tmp_path / "other")
    assert (other / "tokenizer.json").read_bytes() == (tiny_folder / "tokenizer.json").read_bytes()
    assert (other / "model.safetensors").read_bytes() != (tiny_folder / "model.safetensors").read_bytes()


def test_a_head_size_that_cpu_engines_cannot_serve_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make it 32 or 64"):
        build_tiny(TinyConfig(hidden=64, heads=4), CORPUS, 0, tmp_path)
