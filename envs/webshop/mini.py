"""Mini WebShop: a generated catalogue in the official format, small enough for a CPU, worth remembering.

Why: the quickstart and the tests need a shop without any foreign text, in which experience pays. Every kind of thing is
sold by three brands, and a goal wants a quality ("quiet") that only one of them has. Titles and search know brands and
kinds; the quality stands on the Features page alone. In each department a quality belongs to one brand, whatever the
kind, and to another brand in every other department: so a memory of one purchase tells which brand to search for in the
next one, if department and kind are adapted, while looking at products costs four steps for each wrong one.
Invariant: every goal can be reached; the same arguments give the same files.
Run: `python -m envs.webshop.mini data/mini_webshop` (seed 0, 240 products).
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

from envs.webshop.build import build_store
from envs.webshop.files import write_bytes

DEPARTMENTS = {
    "beauty": (
        *("brush", "comb", "soap", "lotion", "mirror", "towel", "razor", "perfume", "sponge", "balm"),
        *("mask", "scrub", "gel", "powder", "serum", "tonic", "pencil", "clip", "file", "wig"),
    ),
    "electronics": (
        *("lamp", "radio", "charger", "cable", "camera", "speaker", "clock", "fan", "router", "keyboard"),
        *("monitor", "battery", "printer", "scanner", "headset", "tablet", "projector", "adapter", "remote", "toaster"),
    ),
    "fashion": (
        *("shirt", "scarf", "belt", "hat", "glove", "jacket", "skirt", "sock", "boot", "sandal"),
        *("coat", "vest", "dress", "sweater", "tie", "apron", "purse", "cap", "robe", "ring"),
    ),
    "garden": (
        *("chair", "bench", "rake", "shovel", "hose", "pot", "umbrella", "bucket", "ladder", "fence"),
        *("hammock", "lantern", "trellis", "grill", "wagon", "planter", "cushion", "table", "swing", "trowel"),
    ),
    "grocery": (
        *("tea", "coffee", "jam", "honey", "pasta", "rice", "cracker", "cookie", "soup", "sauce"),
        *("cheese", "bread", "cereal", "juice", "nut", "syrup", "vinegar", "muffin", "chip", "candy"),
    ),
}
QUALITIES = (
    *("quiet", "sturdy", "compact", "washable", "foldable", "waterproof"),
    *("portable", "vintage", "handmade", "soft", "bright", "durable"),
)
BRANDS = (
    *("velora", "talmit", "brunzo", "kessal", "ordwin", "zephra"),
    *("mirlow", "fendik", "quarna", "sovane", "hulbar", "jistan"),
)
COLORS = ("red", "blue", "green", "black")
SIZES = ("small", "medium", "large")
BRANDS_PER_KIND = 3
QUALITY_COUNTS = (6, 9, 12)
"""Multiples of BRANDS_PER_KIND, so that no kind gets a quality twice, and no fewer than departments."""
MANIFEST = "mini.json"
GENERATION = 3
"""Raised whenever the same arguments would give another shop than before, so that an old one is replaced."""
MOST_PRODUCTS = BRANDS_PER_KIND * sum(map(len, DEPARTMENTS.values()))

Conventions = dict[tuple[str, str], str]
"""(department, quality) -> the brand that has it there."""


def generate_mini(
    root: str | Path, seed: int = 0, products: int = 240, qualities: int = len(QUALITIES)
) -> dict[str, Any]:
    """Write `items_shuffle.json` and `items_ins_v2.json` into `root` and build `root/store`; a summary.

    `products` is rounded down to whole kinds, spread evenly over the departments; 12 goals for each. `qualities`, as
    many as brands, is 6, 9 or 12. A shop of the same arguments is left as it is, another one replaced. Raises
    `ValueError` below 15 and above 300 products.
    """
    per_department = products // (BRANDS_PER_KIND * len(DEPARTMENTS))
    if not per_department or products > MOST_PRODUCTS:
        raise ValueError(f"products is {products}; choose {BRANDS_PER_KIND * len(DEPARTMENTS)} to {MOST_PRODUCTS}.")
    if qualities not in QUALITY_COUNTS:
        raise ValueError(f"qualities is {qualities}; choose one of {QUALITY_COUNTS}.")
    root = Path(root)
    settings = {"generation": GENERATION, "seed": seed, "products": products, "qualities": qualities}
    made = _made_before(root)
    if made.get("settings") == settings:
        return made
    rng = random.Random(seed)
    known = conventions(rng, qualities)
    items: list[dict[str, Any]] = []
    attributes: dict[str, dict[str, Any]] = {}
    for department, kinds in DEPARTMENTS.items():
        for kind, quality in _offers(kinds[:per_department], qualities, rng):
            brand = known[department, quality]
            asin = _asin(brand, attributes)
            items.append(_item(asin, department, kind, quality, brand, rng))
            attributes[asin] = {
                "attributes": [quality],
                "instruction": f"Find me {quality} {kind} for {department}",
                "instruction_attributes": [quality],
            }
    rng.shuffle(items)
    root.mkdir(parents=True, exist_ok=True)
    (root / MANIFEST).unlink(missing_ok=True)
    (root / "items_shuffle.json").write_text(json.dumps(items, indent=0))
    (root / "items_ins_v2.json").write_text(json.dumps(attributes, indent=0))
    for left in (root / "store", root / "store.building"):
        shutil.rmtree(left, ignore_errors=True)
    store = build_store(
        root / "items_shuffle.json", root / "items_ins_v2.json", out=root / "store", seed=seed, nouns="words"
    )
    counts = {"products": len(store), "goals": len(store.goals["synthetic"]), "conventions": len(known)}
    summary = {"settings": settings, **counts}
    write_bytes(root / MANIFEST, json.dumps(summary).encode())
    return summary


def _made_before(root: Path) -> dict[str, Any]:
    """The summary of a complete shop in `root`; empty when there is none."""
    complete = (root / MANIFEST).is_file() and (root / "store").is_dir()
    return json.loads((root / MANIFEST).read_text()) if complete else {}


def conventions(rng: random.Random, qualities: int = len(QUALITIES)) -> Conventions:
    """Which brand has which quality: one brand for each quality of a department, never the same in two departments."""
    brands = rng.sample(BRANDS, qualities)
    turns = rng.sample(range(qualities), len(DEPARTMENTS))
    return {
        (department, quality): brands[(i + turn) % len(brands)]
        for department, turn in zip(DEPARTMENTS, turns, strict=True)
        for i, quality in enumerate(QUALITIES[:qualities])
    }


def _offers(kinds: tuple[str, ...], qualities: int, rng: random.Random) -> list[tuple[str, str]]:
    """(kind, quality) of every product of a department: three qualities per kind, all qualities equally often."""
    dealt: list[str] = []
    while len(dealt) < len(kinds) * BRANDS_PER_KIND:
        dealt += rng.sample(QUALITIES[:qualities], qualities)
    return [
        (kind, quality)
        for i, kind in enumerate(kinds)
        for quality in dealt[i * BRANDS_PER_KIND : (i + 1) * BRANDS_PER_KIND]
    ]


def _asin(brand: str, taken: dict[str, Any]) -> str:
    """Brand and model number: words that a small policy meets often enough to copy them."""
    return f"{brand} {sum(asin.startswith(brand.upper()) for asin in taken) + 1}".upper()


def _item(asin: str, department: str, kind: str, quality: str, brand: str, rng: random.Random) -> dict[str, Any]:
    title = f"{brand} {department} {kind}".title()
    return {
        "asin": asin,
        "name": title,
        "full_description": f"A {kind} for every day.",
        "small_description": [f"{title}.", f"It is {quality}."],
        "pricing": f"${rng.randint(5, 90)}",
        "category": department,
        "query": kind,
        "product_category": f"{department.title()} › {kind.title()}",
        "images": [""],
        "customization_options": {
            "color": [{"value": color} for color in COLORS],
            "size": [{"value": size} for size in SIZES],
        },
    }


if __name__ == "__main__":
    print(generate_mini(sys.argv[1]))
