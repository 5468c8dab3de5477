"""Shopping goals: which there are, their price limits, and their canonical order (shuffle seed 233).

Why: a goal is a product, one combination of its options (or one human instruction) and a price limit; all texts follow
from the product. The store therefore keeps 16 bytes per goal and the text is made when it is needed.
Invariant: with the same catalogue seed, goals and order equal the original's after `random.seed(seed)`; the order does
not depend on that seed at all, so goal number i means the same product and options in every store of a catalogue.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from envs.base import EnvDataError
from envs.webshop.catalog import Product
from envs.webshop.store import Store

Kind = Literal["synthetic", "human"]
GOAL = np.dtype([("row", "<i4"), ("variant", "<i4"), ("limit", "<f8")])
"""Product row; which option combination (synthetic) or which instruction (human); price limit in dollars."""
ORDER_SEED = 233
NO_LIMIT = 1_000_000.0
_LIMITS = [10.0 * i for i in range(1, 100)]


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal in full. `options` are name -> value (synthetic) or bare values (human); `limit` is in dollars."""

    index: int
    row: int
    instruction: str
    attributes: Sequence[str]
    options: dict[str, str] | list[str]
    limit: float


def draw_prices(pricing: Iterable[Sequence[float]], rng: random.Random) -> NDArray[np.float64]:
    """(N,) one price per product, in file order; a range (two numbers) costs one draw."""
    return np.array([p[0] if len(p) == 1 else rng.uniform(p[0], p[1]) for p in pricing], dtype=np.float64)


def draw_goals(kind: Kind, products: Iterable[Product], prices: Iterable[float], rng: random.Random) -> NDArray:
    """(G,) `GOAL` rows in canonical order. `rng` must stand where `draw_prices` left it."""
    made = bytearray()
    for row, (product, price) in enumerate(zip(products, prices, strict=True)):
        made += (_synthetic if kind == "synthetic" else _human)(row, product, price, rng).tobytes()
    goals = np.frombuffer(made, GOAL)
    order = array("q", range(len(goals)))
    random.Random(ORDER_SEED).shuffle(order)
    return goals[np.frombuffer(order, dtype=np.int64)]


def read_goal(store: Store, kind: Kind, index: int) -> Goal:
    """Goal number `index` of the canonical order. Raises `EnvDataError` when there is no such goal."""
    goals = store.goals[kind]
    if not 0 <= index < len(goals):
        raise EnvDataError(f"There is no {kind} goal {index}: the store {store.path} has {len(goals)}.")
    row, variant, limit = goals[index].item()
    product = store.product(row)
    options: dict[str, str] | list[str]
    if kind == "synthetic":
        options = _combination(product, variant)
        chosen = ", and ".join(f"{name}: {value}" for name, value in options.items())
        text = f"{product.instruction} with {chosen}" if chosen else str(product.instruction)
        attributes = product.instruction_attributes
    else:
        text, attributes, options = product.human[variant]
        text = text.strip(".")
    if limit < NO_LIMIT:
        text += f", and price lower than {limit:.2f} dollars"
    return Goal(index, row, text, attributes, options, limit)


def _draw_limit(price: float, rng: random.Random) -> float:
    above = [limit for limit in _LIMITS if limit > price][:4]
    return max(rng.sample(above, 2)) if len(above) >= 2 else NO_LIMIT


def _synthetic(row: int, product: Product, price: float, rng: random.Random) -> NDArray:
    """One goal for each combination of option values, all with one limit."""
    if product.instruction is None:
        return np.zeros(0, GOAL)
    if not product.instruction_attributes:
        raise EnvDataError(
            f"Product {product.asin} has an instruction without attributes: the attribute file is broken."
        )
    limit = _draw_limit(price, rng)
    made = np.zeros(product.goal_count(), GOAL)
    made["row"], made["variant"], made["limit"] = row, np.arange(len(made)), limit
    return made


def _human(row: int, product: Product, price: float, rng: random.Random) -> NDArray:
    """One goal for each human instruction that names attributes, each with a limit of its own."""
    named = [variant for variant, (_, attributes, _) in enumerate(product.human) if attributes]
    return np.array([(row, variant, _draw_limit(price, rng)) for variant in named], GOAL)


def _combination(product: Product, variant: int) -> dict[str, str]:
    """Option combination number `variant`: names sorted, the last name turning fastest."""
    chosen: dict[str, str] = {}
    for name in sorted(product.options, reverse=True):
        values = product.options[name]
        variant, which = divmod(variant, len(values))
        chosen[name] = values[which]
    return dict(reversed(chosen.items()))
