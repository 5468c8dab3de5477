"""The reward of a purchase: type, attributes, options and price against the goal, rule for rule as the original.

total = (matched attributes + matched options + price within limit) / (attributes + options + 1) * r_type.

Two option rules. `original` repeats a quirk: options of synthetic goals are compared as (name, value) pairs turned
into text, so that "red" matches "wine red" and "9" matches "9 wide", and a color is cut to the first color name in it
("titanium" becomes "tan"); buying the exact goal then gives 1.0 for 93.4 % of the small set's goals only. `strict`
compares the value chosen under the goal's option name. Invariant: every component is in [0, 1], and so is the total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from envs.webshop.catalog import Product
from envs.webshop.fuzzy import similar
from envs.webshop.goals import Goal

OptionRule = Literal["original", "strict"]

COLORS = (
    *("alabaster", "apricot", "aqua", "ash", "asphalt", "azure", "banana", "beige", "black", "blue", "blush"),
    *("bordeaux", "bronze", "brown", "burgundy", "camel", "camo", "caramel", "champagne", "charcoal", "cheetah"),
    *("chestnut", "chocolate", "christmas", "coffee", "cognac", "copper", "coral", "cranberry", "cream", "crystal"),
    *("dark", "denim", "eggplant", "elephant", "espresso", "fuchsia", "gold", "granite", "grape", "graphite", "grass"),
    *("gray", "green", "grey", "heather", "indigo", "ivory", "ivy", "khaki", "lavender", "lemon", "leopard", "light"),
    *("lilac", "lime", "magenta", "maroon", "mauve", "merlot", "midnight", "mint", "mocha", "multicolor", "mushroom"),
    *("mustard", "natural", "navy", "nude", "olive", "orange", "peach", "pewter", "pink", "plum", "purple", "rainbow"),
    *("red", "rose", "royal", "rust", "sand", "sapphire", "seashell", "silver", "skull", "slate", "steel", "stone"),
    *("stonewash", "sunflower", "tan", "taupe", "teal", "tiger", "turquoise", "violet", "walnut", "wheat", "white"),
    *("wine", "yellow"),
)
"""Color names in the order in which the original looks for them."""


@dataclass(frozen=True)
class Score:
    """What a purchase earns: the total, and every component under the original's name (`r_type`, `w_att`, ...)."""

    total: float
    parts: Mapping[str, float]


def score_purchase(
    product: Product,
    price: float,
    options: Mapping[str, str],
    goal: Goal,
    target: Product,
    rule: OptionRule = "original",
) -> Score:
    """Score buying `product` at `price` dollars with `options` (name -> value) for `goal`, a goal of `target`."""
    kind = _type_parts(product, target)
    attributes = sum(_has_attribute(product, wanted) for wanted in goal.attributes)
    chosen = _matched_options(options, goal.options, rule)
    affordable = price <= goal.limit
    wanted = len(goal.attributes) + len(goal.options) + 1
    parts = kind | {"r_att": attributes / len(goal.attributes), "w_att": len(goal.attributes) / wanted}
    if goal.options:
        parts |= {"r_option": chosen / len(goal.options), "w_option": len(goal.options) / wanted}
    parts |= {"r_price": affordable, "w_price": 1 / wanted}
    return Score((attributes + chosen + affordable) / wanted * kind["r_type"], parts)


def _type_parts(product: Product, target: Product) -> dict[str, float]:
    """Whether it is the kind of thing that was wanted, judged by search query, category path and title nouns."""
    query_match = product.query == target.query
    category_match = len(_path(product) & _path(target)) >= 2
    shared = len(set(product.nouns) & set(target.nouns))
    title_score = shared / len(target.nouns) if target.nouns else 0.2
    if title_score == 0:
        r_type = 0.0
    elif title_score < 0.1:
        r_type = 0.1
    else:
        r_type = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
    return {
        "r_type": r_type,
        "query_match": query_match,
        "category_match": category_match,
        "title_score": title_score,
    }


def _path(product: Product) -> set[str]:
    return {step.strip() for step in product.product_category.split("›")}


def _has_attribute(product: Product, wanted: str) -> bool:
    """Whether an attribute is listed, or stands in title, bullets or description."""
    return (
        any(similar(attribute, wanted) for attribute in product.attributes)
        or wanted in product.title.lower()
        or wanted in " ".join(product.bullets).lower()
        or wanted in product.description.lower()
    )


def _matched_options(chosen: Mapping[str, str], wanted: Mapping[str, str] | Sequence[str], rule: OptionRule) -> int:
    if rule == "strict":
        if isinstance(wanted, Mapping):
            return sum(chosen.get(name) == value for name, value in wanted.items())
        return sum(value.lower() in chosen.values() for value in wanted)
    have = [_first_color(value) or value for value in chosen.values()]
    if isinstance(wanted, Mapping):
        want = [_first_color(pair) or str(pair) for pair in wanted.items()]
    else:
        want = [_first_color(value) or value for value in wanted]
    return sum(any(similar(value, goal_value) for value in have) for goal_value in want)


def _first_color(value: str | tuple[str, str]) -> str | None:
    """The first color name inside a text; of a (name, value) pair, the first that is one of the two."""
    return next((color for color in COLORS if color in value), None)
