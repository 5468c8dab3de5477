"""Which goals belong to train, dev and test, and how much these share.

`canonical` is the original's: goals 0-499 test, 500-1499 dev, the rest train, of an order that is the same everywhere.
Its splits share products: on the small set 479 of 500 test goals have a sibling (same product, other options) in train.
`disjoint_products` gives every product to one split by a hash of its asin (15 % test, 15 % dev), for clean
generalisation studies. Invariant: a goal is in exactly one split of a rule.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from envs.base import EnvDataError
from envs.webshop.goals import Kind
from envs.webshop.store import Store

Rule = Literal["canonical", "disjoint_products"]
RULES = ("canonical", "disjoint_products")
SPLITS = ("train", "dev", "test")
_CANONICAL = {"test": slice(0, 500), "dev": slice(500, 1500), "train": slice(1500, None)}
_TEST_PERCENT, _DEV_PERCENT = 15, 15


def goal_numbers(store: Store, kind: Kind, split: str, rule: Rule = "canonical") -> list[int]:
    """Goal numbers of a split in canonical order. Raises `EnvDataError` when there are none."""
    if split not in SPLITS:
        raise EnvDataError(f"WebShop has no split {split!r}; choose {', '.join(SPLITS)}.")
    numbers = np.arange(len(store.goals[kind]))
    chosen = numbers[_CANONICAL[split]] if rule == "canonical" else numbers[_product_splits(store, kind) == split]
    if not len(chosen):
        raise EnvDataError(
            f"The {rule} split {split} of {store.path} is empty: the store has {len(numbers)} {kind} goals. "
            "Choose other goals (env.options.goals) or split_rule=disjoint_products, or build a larger store."
        )
    return [int(number) for number in chosen]


def _product_splits(store: Store, kind: Kind) -> NDArray[np.str_]:
    """(G,) the split of every goal by its product's asin."""
    rows = store.goals[kind]["row"]
    products, goal_product = np.unique(rows, return_inverse=True)
    return np.array([_split_of(str(store.asins[row])) for row in products])[goal_product]


def _split_of(asin: str) -> str:
    percent = int.from_bytes(hashlib.blake2b(asin.encode(), digest_size=4).digest(), "big") % 100
    if percent < _TEST_PERCENT:
        return "test"
    return "dev" if percent < _TEST_PERCENT + _DEV_PERCENT else "train"


def split_overlap(store: Store, kind: Kind = "synthetic", rule: Rule = "canonical") -> dict[str, Any]:
    """What splits share: for each its goals and products, and for each ordered pair `a in b` the goals of a whose
    product also has a goal in b, and the products in both."""
    rows = store.goals[kind]["row"]
    of = {split: rows[_members(store, kind, split, rule)] for split in SPLITS}
    report: dict[str, Any] = {
        split: {"goals": len(found), "products": len(np.unique(found))} for split, found in of.items()
    }
    for a in SPLITS:
        for b in SPLITS:
            if a != b:
                shared = np.isin(of[a], of[b])
                report[f"{a} in {b}"] = {"goals": int(shared.sum()), "products": len(np.unique(of[a][shared]))}
    return report


def _members(store: Store, kind: Kind, split: str, rule: Rule) -> NDArray[np.bool_] | slice:
    return _CANONICAL[split] if rule == "canonical" else _product_splits(store, kind) == split
