"""The original's pages as lists of text nodes, and its two text renderings of them.

Why: the original renders HTML with Flask and parses it twice per step; all that an agent sees are the visible texts.
Invariant: `plain` and `rich` give, character for character, what the original's `text` and `text_rich` modes give.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from envs.webshop.catalog import Product

SEARCH = "Search"
BACK = "Back to Search"
PREVIOUS = "< Prev"
NEXT = "Next >"
BUY = "Buy Now"
SUB_PAGES = ("Description", "Features", "Reviews", "Attributes")
PER_PAGE = 10
_HTML_SPACES = "\t\n\f\r "


@dataclass(frozen=True, slots=True)
class Node:
    """A visible text of a page; `option` is the option's name when it is a value to choose."""

    text: str
    kind: Literal["text", "button", "link", "option"] = "text"
    option: str = ""


Page = list[Node]


def _button(text: str) -> Node:
    return Node(text, "button")


def start_page(instruction: str) -> Page:
    """The page with the search bar."""
    return _visible([Node("WebShop"), Node("Instruction: "), Node(instruction), _button(SEARCH)])


def results_page(instruction: str, number: int, total: int, products: Sequence[Product]) -> Page:
    """One page of search results; there is always a next page, if only an empty one."""
    page = [*_head(instruction), Node(f"Page {number} (Total results: {total})")]
    page += [_button(PREVIOUS)] if number > 1 else []
    page += [_button(NEXT)]
    for product in products:
        page += [Node(product.asin, "link"), Node(product.title), Node(product.price_tag)]
    return _visible(page)


def item_page(instruction: str, product: Product, show_attributes: bool) -> Page:
    """A product with its options."""
    page = [*_head(instruction), _button(PREVIOUS)]
    for name, values in product.options.items():
        page += [Node(name), *(Node(value, "option", name) for value in values)]
    page += [Node(product.title), Node(f"Price: {product.price_tag}"), Node("Rating: N.A.")]
    page += [_button(name) for name in (SUB_PAGES if show_attributes else SUB_PAGES[:3])]
    return _visible([*page, _button(BUY)])


def sub_page(instruction: str, product: Product, name: str) -> Page:
    """Description, Features, Reviews (always empty) or Attributes of a product."""
    body: list[str] = []
    if name == "Description":
        body = [product.description]
    elif name == "Features":
        body = [f" {bullet}" for bullet in product.bullets]
    elif name == "Attributes":
        body = [*(f" {attribute}" for attribute in product.attributes)]
        body += [product.category, product.query, product.product_category]
    return _visible([*_head(instruction), _button(PREVIOUS), *map(Node, body)])


def done_page(asin: str, options: Mapping[str, str], reward: float | None) -> Page:
    """The page after a purchase; without the reward when it is None (the original prints it)."""
    quoted = json.dumps(options, sort_keys=True)
    for character in "<>&'":
        quoted = quoted.replace(character, f"\\u{ord(character):04x}")
    texts = ["Thank you for shopping with us!", "Your code: ", "None", " (Paste it in your MTurk interface.)"]
    texts += ["Purchased", "asin", asin, "options", quoted, "attrs", "None", "category", "None", "query", "None"]
    texts += ["product category", "None", "Target", "asin", "options", "attrs", "price upper", "instuction text"]
    texts += ["category", "product category", "query", "Goal ", "None"]
    if reward is not None:
        texts += ["Reward", "Your score (min 0.0, max 1.0)", str(reward), "Reward Details ", "None"]
    return [Node(text) for text in texts]


def _head(instruction: str) -> Page:
    return [Node("Instruction:"), Node(instruction), _button(BACK)]


def _visible(page: Page) -> Page:
    """What an HTML parser keeps: nothing of empty nodes or line breaks, one blank of other white space."""
    kept = []
    for node in page:
        if node.text.strip(_HTML_SPACES):
            kept.append(node)
        elif node.text and "\n" not in node.text:
            kept.append(Node(" ", node.kind, node.option))
    return kept


def plain(page: Page) -> str:
    """Mode `text`: stripped texts between separators."""
    return " [SEP] ".join(node.text.strip() for node in page)


def quoted_after(page: Page, instruction: str) -> str:
    """What a prompt shows in mode `text`: the texts after the instruction, each in quotes; empty on the last page."""
    texts = [node.text.strip() for node in page]
    if instruction.strip() not in texts:
        return ""
    return " [SEP] ".join(f"'{text}'" for text in texts[texts.index(instruction.strip()) + 1 :])


def rich(page: Page, url: str, visited: Collection[str]) -> str:
    """Mode `text_rich`: buttons are marked; clicked are options that stand quoted in the URL, and products seen."""
    lines: list[str] = []
    clicked: list[str] = []
    for node in page:
        text = node.text
        if node.kind == "button":
            lines.append(f"[button] {text} [button_]")
        elif node.kind == "link":
            mark = "clicked button" if text in visited else "button"
            lines.append(f"\n[{mark}] {text} [{mark}_]")
        elif node.kind == "option":
            if hit := f'"{text}"' in url:
                clicked.insert(0, f"You have clicked {text}.")
            mark = "clicked button" if hit else "button"
            lines.append(f"  [{mark}] {text} [{mark}_]")
        else:
            lines.append(text)
    return "".join(f"{line}\n" for line in (*clicked, *lines))


def clickables(page: Page) -> dict[str, Node]:
    """What can be clicked, by the text an agent gives: buttons, then products, then options, which win over both."""
    found = {node.text.lower(): node for node in page if node.kind == "button"}
    found |= {node.text.lower(): node for node in page if node.kind == "link"}
    return found | {node.text: node for node in page if node.kind == "option"}
