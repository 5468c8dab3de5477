"""Which replica completes a prompt: the one that has most of it cached, else the next in turn.

Why: an episode's prompts grow from the same beginning, and a replica that saw the last one has its keys and values.
Invariants: equal histories give equal choices; a replica that is far busier than another one never gets more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

BLOCK = 64
"""Tokens that are remembered together."""
REMEMBERED = 1 << 16
"""Blocks; the least recently used are forgotten."""
SLACK = 16
"""Requests that the replica with the prefix may have more than the idlest one."""


@dataclass
class _Block:
    """Who has a block cached, and which blocks followed it (two are enough to know that prompts part here)."""

    holders: set[int] = field(default_factory=set)
    next: set[int] = field(default_factory=set)


class Router:
    """Routes prompts to `count` replicas; `loads` are the requests under way."""

    def __init__(self, count: int) -> None:
        self.loads = [0] * count
        self._turn = 0
        self._blocks: OrderedDict[int, _Block] = OrderedDict()

    def choose(self, ids: Sequence[int], alive: Sequence[int]) -> int:
        """A replica out of `alive` for a prompt. What many prompts begin with (instructions) binds none of them."""
        chain = _chain(ids)
        path = [self._blocks.setdefault(name, _Block()) for name in chain]
        for block, following in zip(path, chain[1:], strict=False):
            if len(block.next) < 2:
                block.next.add(following)
        known = next((b.holders for b in reversed(path) if b.holders and len(b.next) < 2), set(alive))
        idlest = min(self.loads[replica] for replica in alive)
        near = [r for r in alive if r in known and self.loads[r] <= idlest + SLACK] or list(alive)
        chosen = min(near, key=lambda r: (self.loads[r], (r - self._turn) % len(self.loads)))
        self._turn = (chosen + 1) % len(self.loads)
        for name, block in zip(chain, path, strict=True):
            block.holders.add(chosen)
            self._blocks.move_to_end(name)
        while len(self._blocks) > REMEMBERED:
            self._blocks.popitem(last=False)
        return chosen

    def forget(self) -> None:
        """New weights: no replica holds any prefix."""
        self._blocks.clear()


def _chain(ids: Sequence[int]) -> list[int]:
    """One number per full block, which names the block and all before it."""
    chain, seen = [], 0
    for start in range(0, len(ids) - BLOCK + 1, BLOCK):
        seen = hash((seen, *ids[start : start + BLOCK]))
        chain.append(seen)
    return chain
