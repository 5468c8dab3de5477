"""One product: the official JSON item cleaned as the original does it, its search text, and its form in the store.

Invariant: `Product.from_json(product.to_json()) == product`; every text is what the original's pages would print.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

_NO_PRICE = 100.0
_NOT_PRICE = re.compile(r"[^\d.]")


@dataclass(frozen=True, slots=True)
class Product:
    """A product as pages, goals and reward need it. `pricing` holds one price or the two ends of a range (dollars);
    `human` holds [instruction, attributes, option values] of every human instruction; `nouns` those of the title."""

    asin: str
    title: str
    category: str
    query: str
    product_category: str
    price_tag: str
    pricing: list[float]
    description: str
    bullets: list[str]
    options: dict[str, list[str]]
    attributes: list[str]
    instruction: str | None
    instruction_attributes: list[str]
    human: list[tuple[str, list[str], list[str]]]
    nouns: list[str]

    def to_json(self) -> str:
        """One line of JSON: the fields' values in order."""
        values = [getattr(self, name) for name in _FIELDS]
        return json.dumps(values, ensure_ascii=False, separators=(",", ":"))

    @staticmethod
    def from_json(line: str | bytes) -> Product:
        """The product of such a line."""
        values = json.loads(line)
        values[_HUMAN] = [(text, attributes, options) for text, attributes, options in values[_HUMAN]]
        return Product(*values)

    def search_text(self) -> str:
        """What the index holds of it: title, description, first bullet and options, lower-cased."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        first_bullet = self.bullets[0] if self.bullets else ""
        return " ".join([self.title, self.description, first_bullet, options]).lower()

    def goal_count(self) -> int:
        """How many synthetic goals it gives: one for every combination of option values."""
        return math.prod(len(values) for values in self.options.values()) if self.instruction is not None else 0


_FIELDS = tuple(field.name for field in fields(Product))
_HUMAN = _FIELDS.index("human")


def clean(
    item: Mapping[str, Any],
    attributes: Mapping[str, Any],
    human: Sequence[Mapping[str, Any]] = (),
    nouns: Sequence[str] = (),
) -> tuple[Product, int]:
    """An official item, its entry of the attribute file and its human instructions as a `Product`.

    Also returns how many pieces of its price could not be read (the original stops at the first).
    """
    pricing, price_tag, unreadable = _prices(item.get("pricing"))
    bullets = item["small_description"]
    product = Product(
        asin=item["asin"],
        title=item["name"],
        category=item["category"],
        query=item["query"].lower().strip(),
        product_category=item["product_category"],
        price_tag=price_tag,
        pricing=pricing,
        description=item["full_description"],
        bullets=list(bullets) if isinstance(bullets, list) else [bullets],
        options=_options(item["customization_options"]),
        attributes=attributes.get("attributes", ["DUMMY_ATTR"]),
        instruction=attributes.get("instruction"),
        instruction_attributes=attributes.get("instruction_attributes") or [],
        human=[(h["instruction"], h["instruction_attributes"], h["instruction_options"]) for h in human],
        nouns=list(nouns),
    )
    return product, unreadable


def _prices(text: str | None) -> tuple[list[float], str, int]:
    """'$10.99 to $20.5' -> ([10.99, 20.5], '$10.99 to $20.5', pieces that are no number)."""
    prices, unreadable = [], 0
    for piece in (text or "").split("$")[1:]:
        try:
            prices.append(float(_NOT_PRICE.sub("", piece)))
        except ValueError:
            unreadable += 1
    if not prices:
        return [_NO_PRICE], f"${_NO_PRICE}", unreadable
    prices = prices[:2]
    return prices, " to ".join(f"${price}" for price in prices), unreadable


def _options(contents: Mapping[str, Any] | str | None) -> dict[str, list[str]]:
    options: dict[str, list[str]] = {}
    for name, choices in contents.items() if isinstance(contents, Mapping) else ():
        if choices is not None:
            options[name.lower()] = [choice["value"].strip().replace("/", " | ").lower() for choice in choices]
    return options
