"""The scripted shopper of the mini shop: reads pages, remembers brands, and says why in a few words.

Without a memory it searches for the kind and looks at the Features of one brand after another; the last one left needs
no look. With one it searches for the brand at once: 5 steps instead of up to 13.
Invariants: it knows only what the pages and the memories show, so what it says can be learnt from prompts; a thought
names the words that its action copies or that it compares, which a small policy cannot do in one step.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from envs.base import Expert, Observation
from envs.webshop.actions import SEARCH_TEMPLATE

_GOAL = re.compile(r"find me (\w+) (\w+) for (\w+)(?: with (.*?))?(?:, and price lower than .*)?$", re.IGNORECASE)
_OPTION = re.compile(r"\w+: (\w+)")
_FEATURE = re.compile(r"It is (\w+)")
_MEMORY = re.compile(r"(\w+) is (\w+)")
_GUIDANCE = re.compile(r"search (\w+) (\w+)")
_PRODUCT = re.compile(r"click\[(\w+ \d+)\]")
_BACK, _PREVIOUS, _FEATURES, _BUY = "click[back to search]", "click[< prev]", "click[features]", "click[buy now]"


@dataclass(frozen=True)
class _Wish:
    """What a goal text asks for."""

    quality: str
    kind: str
    department: str
    options: tuple[str, ...]

    @staticmethod
    def read(goal: str) -> _Wish:
        """Raises `ValueError` for a goal that is not of the mini shop."""
        found = _GOAL.match(goal)
        if not found:
            raise ValueError(f"The WebShop expert knows the mini shop only, and this is no goal of it: {goal!r}")
        quality, kind, department, options = found.groups(default="")
        return _Wish(quality.lower(), kind.lower(), department.lower(), tuple(_OPTION.findall(options)))

    def brands(self, text: str) -> list[str]:
        """Brands of the wanted kind that a page names, in order."""
        return [brand.lower() for brand in re.findall(rf"(\w+) {self.department} {self.kind}\b", text, re.IGNORECASE)]


def understands(goal: str) -> bool:
    """Whether a goal text is one of the mini shop."""
    return bool(_GOAL.match(goal))


class WebShopExpert(Expert):
    """One object plays one episode. Of the brands that it knows nothing about it looks at one by `seed`."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = random.Random(seed)
        self._sure = ""
        self._here = self._read = ""
        self._wrong: set[str] = set()
        self._chosen: list[str] = []

    def act(self, observation: Observation, guidance: str) -> tuple[str, str]:
        """A few words about why, and the action."""
        wish = _Wish.read(observation.goal)
        told = _GUIDANCE.search(guidance)
        if told and told[2] == wish.kind:
            self._sure = told[1]
        if SEARCH_TEMPLATE in observation.admissible:
            return self._search(wish)
        if "click[next >]" in observation.admissible:
            return self._pick_product(wish, observation)
        if _BUY in observation.admissible:
            return self._handle_item(wish, observation)
        return self._read_sub_page(wish, observation)

    def _search(self, wish: _Wish) -> tuple[str, str]:
        words = f"{self._sure} {wish.kind}".strip()
        options = " ".join(wish.options)
        return f"need {wish.quality} {wish.kind} {options} search {words}", f"search[{words}]"

    def _pick_product(self, wish: _Wish, observation: Observation) -> tuple[str, str]:
        self._chosen = []
        offers = _offers(wish, observation)
        if self._sure not in offers:
            left = [brand for brand in offers if brand not in self._wrong]
            if self._sure or not left:
                return f"no {self._sure or wish.quality} here", _BACK
            brand = self._rng.choice(left)
            if len(left) == 1 and len(offers) > 1:
                self._sure = brand
        else:
            brand = self._sure
        return f"take {brand}", f"click[{offers[brand]}]"

    def _handle_item(self, wish: _Wish, observation: Observation) -> tuple[str, str]:
        named = wish.brands(observation.text)
        self._here = named[0] if named else ""
        if not self._here or self._here in self._wrong or self._sure not in ("", self._here):
            seen = f"want {wish.quality} saw {self._read}" if self._read else f"not {self._sure or wish.quality}"
            self._read = ""
            return f"{seen} back", _PREVIOUS
        if not self._sure:
            return f"check {self._here}", _FEATURES
        for value in wish.options:
            if value not in self._chosen:
                self._chosen.append(value)
                seen, self._read = f"want {wish.quality} saw {self._read} " if self._read else "", ""
                return f"{seen}need {' '.join(wish.options)} pick {value}", f"click[{value}]"
        return "buy", _BUY

    def _read_sub_page(self, wish: _Wish, observation: Observation) -> tuple[str, str]:
        found = _FEATURE.search(observation.text)
        if not found:
            return "back", _PREVIOUS
        self._read = found[1]
        if self._read == wish.quality:
            self._sure = self._here
        else:
            self._wrong.add(self._here)
        return f"see {self._read}", _PREVIOUS

    def query(self, observation: Observation) -> str:
        """What decides the brand: quality and department, whatever the kind."""
        wish = _Wish.read(observation.goal)
        return f"{wish.quality} {wish.department}"

    def reconstruct(self, observation: Observation, memories: Sequence[tuple[str, str]]) -> str:
        """The search for this kind, from a memory of the same quality in the same department."""
        wish = _Wish.read(observation.goal)
        for memory, state in memories:
            told = _MEMORY.search(memory)
            if told and told[1] == wish.quality and re.search(rf"\b{wish.department}\b", state, re.IGNORECASE):
                return f"search {told[2]} {wish.kind}"
        return ""

    def distill(self, goal: str, steps: Sequence[tuple[str, str]], won: bool) -> tuple[str, str] | None:
        """Which brand has which quality: the last one that a page proved, else that of a purchase that was right."""
        wish = _Wish.read(goal)
        brand, proved, bought = "", None, ""
        for observation, action in steps:
            named = wish.brands(observation)
            if action in (_FEATURES, _BUY) and named:
                brand = named[0]
                bought = brand if action == _BUY else ""
            elif brand and (found := _FEATURE.search(observation)):
                proved = found[1], brand
        quality, brand = proved or (wish.quality, bought if won else "")
        return (f"{quality} {wish.department}", f"{quality} is {brand}") if brand else None


def _offers(wish: _Wish, observation: Observation) -> dict[str, str]:
    """Brand -> product id, for the products of the wanted kind on a results page, in order."""
    offers: dict[str, str] = {}
    for product in filter(None, map(_PRODUCT.fullmatch, observation.admissible)):
        after = re.split(rf"\b{product[1]}\b", observation.text.lower(), maxsplit=1)[-1][:80]
        brands = wish.brands(after)
        if brands:
            offers.setdefault(brands[0], product[1])
    return offers
