"""Plan, then compute: which rows share a micro-batch, on which rank (DESIGN decisions 2 and 3).

Why: padding wastes half the work, and ranks with different numbers of micro-batches dead-lock a sharded model.
Invariants: every row is in exactly one bin; every rank holds equally many bins; a bin exceeds the token budget only
when it is a single row; the plan is a pure function of the lengths, so every rank computes the same one.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

Bin = list[int]


def plan(lengths: Sequence[int], token_budget: int, world: int = 1) -> list[list[Bin]]:
    """Row lengths in tokens -> for each of `world` ranks its bins, each a list of row indices.

    First-fit decreasing under the budget; the heaviest bin is split until the number of bins divides by `world`; bins
    then go to the least loaded rank (LPT) with equal counts. Only when rows are fewer than needed are bins empty: they
    stand for a micro-batch of weight zero.
    """
    bins = _first_fit_decreasing(lengths, token_budget)
    bins = _split_until_divisible(bins, lengths, world)
    bins += [[] for _ in range(-len(bins) % world)]
    return _balance(bins, lengths, world)


def _first_fit_decreasing(lengths: Sequence[int], budget: int) -> list[Bin]:
    bins: list[Bin] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        place = next((b for b, free in enumerate(room) if free >= lengths[index]), None)
        if place is None:
            bins.append([index])
            room.append(budget - lengths[index])
        else:
            bins[place].append(index)
            room[place] -= lengths[index]
    return bins


def _split_until_divisible(bins: list[Bin], lengths: Sequence[int], world: int) -> list[Bin]:
    """Halve the heaviest bin that has two rows, again and again; stops early when every bin is a single row."""
    bins = list(bins)
    while len(bins) % world:
        splittable = [b for b in range(len(bins)) if len(bins[b]) > 1]
        if not splittable:
            break
        heaviest = max(splittable, key=lambda b: (_weight(bins[b], lengths), -b))
        halves: list[Bin] = [[], []]
        for index in bins[heaviest]:  # already longest first, so this greedy halving is balanced
            halves[_weight(halves[0], lengths) > _weight(halves[1], lengths)].append(index)
        bins[heaviest] = halves[0]
        bins.append(halves[1])
    return bins


def _balance(bins: list[Bin], lengths: Sequence[int], world: int) -> list[list[Bin]]:
    """Longest processing time first: heaviest bin to the least loaded rank that still has a place."""
    share = len(bins) // world
    ranks: list[list[Bin]] = [[] for _ in range(world)]
    loads = [(0, rank) for rank in range(world)]
    for members in sorted(bins, key=lambda b: (-_weight(b, lengths), b)):
        load, rank = heapq.heappop(loads)
        ranks[rank].append(members)
        if len(ranks[rank]) < share:
            heapq.heappush(loads, (load + _weight(members, lengths), rank))
    return ranks


def _weight(members: Bin, lengths: Sequence[int]) -> int:
    return sum(lengths[index] for index in members)
