"""WebShop as a `TextEnv`: the original's pages, actions and reward, without HTML, Java or spaCy.

Invariant: with `leak_reward`, `click_search` and `reward_options: original`, text, clickables, reward and done equal
the original's for every action that does not crash it. Deviations beyond these three options: what crashes it is an
inadmissible action here; an inadmissible action after the end leaves the episode at its end; blanks that the rollout
collapsed in an option's text are forgiven. An episode's state is small, so one process holds hundreds.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from typing import Any, Literal

from envs.base import Expert, Observation, Task, TextEnv
from envs.webshop import pages, splits
from envs.webshop.actions import SEARCH_TEMPLATE, BadSearchError, find_products, parse
from envs.webshop.expert import WebShopExpert, understands
from envs.webshop.goals import Goal, Kind, read_goal
from envs.webshop.reward import OptionRule, Score, score_purchase
from envs.webshop.search import Searcher
from envs.webshop.store import open_store

CATEGORIES = ("beauty", "electronics", "fashion", "garden", "grocery")
OTHER = "other"
_HOST = "http://127.0.0.1:3000"


@dataclass(frozen=True)
class WebShopOptions:
    """What `env.options` may hold."""

    store: str
    """Folder of the built store."""
    goals: Kind = "synthetic"
    split_rule: splits.Rule = "canonical"
    observation: Literal["text", "text_rich"] = "text"
    reward_options: OptionRule = "original"
    show_attributes: bool = False
    """Offer a product's attributes as a fourth sub page."""
    leak_reward: bool = False
    """Print the reward on the last page, as the original does."""
    click_search: bool = False
    """Offer `click[search]`, which does nothing."""
    page_size: int = pages.PER_PAGE
    """Products on a page of results; the original shows ten."""
    most_tasks: int = 0
    """Only the first so many goals of a split (0: all): the full catalogue has millions of synthetic goals."""

    def __post_init__(self) -> None:
        allowed = {
            "goals": ("synthetic", "human"),
            "split_rule": splits.RULES,
            "observation": ("text", "text_rich"),
            "reward_options": ("original", "strict"),
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise ValueError(f"env.options.{name} is {getattr(self, name)!r}; choose {' or '.join(values)}.")
        if self.page_size < 1:
            raise ValueError(f"env.options.page_size is {self.page_size}; a page shows at least one product.")


@dataclass
class _Episode:
    """Where an episode stands. `url` is the original's; its parts decide what some buttons do."""

    goal: Goal
    page: pages.Page = field(default_factory=list)
    url: str = ""
    words: str = ""
    results: list[int] = field(default_factory=list)
    number: int = 1
    row: int = -1
    options: dict[str, str] = field(default_factory=dict)
    visited: set[str] = field(default_factory=set)
    score: Score | None = None
    """Set while the last page is shown."""


@functools.cache
def _searcher(store: str) -> Searcher:
    return Searcher(open_store(store))


class WebShopEnv(TextEnv):
    """One shopping session at a time; options are the fields of `WebShopOptions`."""

    name = "webshop"
    splits = ("train", "dev", "test")
    task_types = (*CATEGORIES, OTHER)
    lowercase_actions = True

    def __init__(self, **options: Any) -> None:
        self._options = WebShopOptions(**options)
        self._store = open_store(self._options.store)
        self._searcher = _searcher(self._options.store)
        self._at: _Episode | None = None

    @classmethod
    def tasks(cls, split: str, **options: Any) -> list[Task]:
        """The goals of a split in canonical order; `data` holds the goal's number."""
        chosen = WebShopOptions(**options)
        store = open_store(chosen.store)
        names = [store.categories[i].decode() for i in range(len(store.categories))]
        types = [name if name in CATEGORIES else OTHER for name in names]
        rows = store.goals[chosen.goals]["row"]
        numbers = splits.goal_numbers(store, chosen.goals, split, chosen.split_rule)
        return [
            Task(f"{chosen.goals}-{i}", cls.name, split, types[store.category_of[rows[i]]], {"goal": i})
            for i in numbers[: chosen.most_tasks or None]
        ]

    @classmethod
    def expert(cls, seed: int, **options: Any) -> Expert | None:
        """The scripted shopper of the mini shop; None for any other store, whose texts it would not understand."""
        chosen = WebShopOptions(**options)
        goal = read_goal(open_store(chosen.store), chosen.goals, 0)
        return WebShopExpert(seed) if understands(goal.instruction) else None

    @property
    def url(self) -> str:
        """The address that the original would show."""
        return self._episode.url

    def reset(self, task: Task) -> Observation:
        """Open the start page for the task's goal. Raises `EnvDataError` when the store has no such goal."""
        self._at = _Episode(read_goal(self._store, self._options.goals, int(task.data["goal"])))
        self._start()
        return self._observe()

    def step(self, action: str) -> Observation:
        """`search[words]` on any page, `click[text]` on what the page offers; anything else changes nothing."""
        name, argument = parse(action)
        if name == "search":
            return self._search(argument)
        if name == "click":
            return self._click(argument)
        return self._observe(accepted=False)

    @property
    def _episode(self) -> _Episode:
        if self._at is None:
            raise RuntimeError("There is no episode yet: call reset(task) first.")
        return self._at

    def _search(self, words: str) -> Observation:
        at = self._episode
        try:
            at.results = find_products(self._store, self._searcher, words, seed=at.goal.index)
        except BadSearchError:
            return self._observe(accepted=False)
        at.words = words
        self._show_results(1)
        return self._observe()

    def _click(self, text: str) -> Observation:
        at = self._episode
        offered = pages.clickables(at.page)
        if text not in offered:
            text = {" ".join(known.split()): known for known in offered}.get(text, text)
        if text not in offered:
            return self._observe(accepted=False)
        if text == pages.SEARCH.lower():
            return self._observe(accepted=self._options.click_search)
        if text == pages.BUY.lower():
            return self._buy()
        self._follow(text, offered[text])
        return self._observe()

    def _follow(self, text: str, node: pages.Node) -> None:
        """Everything that leads to another page and does not end the episode."""
        at = self._episode
        kind = _page_kind(at.url)
        sub_pages = {name.lower(): name for name in pages.SUB_PAGES}
        if text == pages.BACK.lower():
            self._start()
        elif text == pages.NEXT.lower() and kind == "search_results":
            self._show_results(at.number + 1)
        elif text == pages.PREVIOUS.lower() and kind == "search_results":
            self._show_results(at.number - 1)
        elif text == pages.PREVIOUS.lower() and kind == "item_page":
            self._show_results(at.number)
        elif text in sub_pages:
            self._show_sub_page(sub_pages[text])
        else:
            self._show_item(node)

    def _start(self) -> None:
        at = self._episode
        at.url = f"{_HOST}/{at.goal.index}"
        at.words, at.results, at.number, at.row, at.options, at.visited = "", [], 1, -1, {}, set()
        at.score = None
        at.page = pages.start_page(at.goal.instruction)

    def _show_results(self, number: int) -> None:
        at = self._episode
        at.number, at.row, at.options, at.score = number, -1, {}, None
        at.url = f"{_HOST}/search_results/{at.goal.index}/{_joined(at.words)}/{number}"
        rows = self._rows_shown()
        products = [self._store.product(row) for row in rows]
        at.page = pages.results_page(at.goal.instruction, number, len(at.results), products)

    def _rows_shown(self) -> list[int]:
        at, size = self._episode, self._options.page_size
        return at.results[(at.number - 1) * size : at.number * size]

    def _show_item(self, node: pages.Node) -> None:
        at = self._episode
        if node.kind == "link":
            at.row = next(row for row in self._rows_shown() if self._store.product(row).asin == node.text)
            at.visited.add(node.text)
        elif node.kind == "option":
            at.options[node.option] = node.text
        product = self._store.product(at.row)
        place = f"{at.goal.index}/{product.asin}/{_joined(at.words)}/{at.number}"
        at.url = f"{_HOST}/item_page/{place}/{json.dumps(at.options)}"
        at.page = pages.item_page(at.goal.instruction, product, self._options.show_attributes)

    def _show_sub_page(self, name: str) -> None:
        at = self._episode
        product = self._store.product(at.row)
        place = f"{at.goal.index}/{product.asin}/{_joined(at.words)}/{at.number}"
        at.url = f"{_HOST}/item_sub_page/{place}/{name}/{at.options}"
        at.page = pages.sub_page(at.goal.instruction, product, name)

    def _buy(self) -> Observation:
        at = self._episode
        product, target = self._store.product(at.row), self._store.product(at.goal.row)
        price = float(self._store.prices[at.row])
        score = score_purchase(product, price, at.options, at.goal, target, self._options.reward_options)
        at.url = f"{_HOST}/done/{at.goal.index}/{product.asin}/{at.options}"
        at.page = pages.done_page(product.asin, at.options, score.total if self._options.leak_reward else None)
        at.score = score
        return self._observe()

    def _observe(self, accepted: bool = True) -> Observation:
        at = self._episode
        goal = at.goal.instruction
        if self._options.observation == "text":
            text, shown = pages.plain(at.page), pages.quoted_after(at.page, goal)
        else:
            text = pages.rich(at.page, at.url, at.visited)
            shown = text.partition(f"{goal}\n")[2]
        score = at.score.total if at.score else 0.0
        return Observation(
            text=text,
            shown=shown,
            admissible=self._admissible(),
            goal=goal,
            score=score,
            won=score == 1.0,
            done=at.score is not None,
            accepted=accepted,
            info={"reward": dict(at.score.parts)} if at.score else {},
        )

    def _admissible(self) -> tuple[str, ...]:
        offered = [f"click[{text}]" for text in pages.clickables(self._episode.page)]
        if f"click[{pages.SEARCH.lower()}]" not in offered:
            return tuple(offered)
        return (SEARCH_TEMPLATE, *offered) if self._options.click_search else (SEARCH_TEMPLATE,)


def _joined(words: str) -> str:
    return words.replace(" ", "+")


def _page_kind(url: str) -> str:
    """The original looks for page names anywhere in the address, also in the words searched for."""
    return next((kind for kind in ("search_results", "item_page", "item_sub_page", "done") if kind in url), "")
