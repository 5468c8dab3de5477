"""Philox against the published vectors, and uniforms that belong to their key."""

from __future__ import annotations

import numpy as np
import pytest

from mh_train.engine.noise import philox, uniforms

# Random123 1.14, kat_vectors: philox4x32 with 10 rounds
VECTORS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_philox_gives_the_published_numbers(counter: str, key: str, expected: str) -> None:
    low, high = (int(word, 16) for word in key.split())
    words = np.array([[int(word, 16) for word in counter.split()]], dtype=np.uint64)
    drawn = philox(np.array([low | high << 32], dtype=np.uint64), words)
    assert [f"{word:08x}" for word in drawn[0]] == expected.split()


def test_a_number_depends_on_its_key_and_position_alone() -> None:
    keys = np.array([7, 2**64 - 1, 0, 12345678901234567890], dtype=np.uint64)
    whole = uniforms(keys, 3)
    assert [uniforms(keys[i : i + 1], 3)[0] for i in range(4)] == whole.tolist()
    assert not set(whole) & set(uniforms(keys, 4))


def test_numbers_are_uniform_in_the_half_open_unit_interval() -> None:
    drawn = np.concatenate([uniforms(np.arange(2000, dtype=np.uint64), position) for position in range(10)])
    assert drawn.min() >= 0 and drawn.max() < 1
    counts, _ = np.histogram(drawn, bins=20, range=(0, 1))
    assert ((counts - 1000) ** 2 / 1000).sum() < 45  # chi-square with 19 degrees of freedom, p = .0007
    assert len(np.unique(drawn)) == len(drawn)
