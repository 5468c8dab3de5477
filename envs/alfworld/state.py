"""The facts of a game and the matching of queries against them, in exactly TextWorld's order.

Why: the order of matches is the order of things in a sentence ("you see a mug 2, and a pan 1"), so it is part of the
text.
Invariant: `matches` yields what `textworld.logic.State.all_assignments` yields for a conjunctive query: depth first
through the predicates, facts sorted by argument, different placeholders bound to different things.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Variable = tuple[str, str]
"""(name, type): a placeholder of a query or an object of the game."""
Signature = tuple[str, tuple[str, ...]]
"""(predicate, types of its arguments)"""
Arguments = tuple[Variable, ...]
Bindings = Mapping[Variable, Variable]
"""placeholder -> object"""


@dataclass(frozen=True)
class Predicate:
    """One predicate of a query: its placeholders, and the signatures of facts that can match it in order."""

    parameters: Arguments
    signatures: tuple[Signature, ...]


Query = tuple[Predicate, ...]


def query_from_data(data: Iterable[Mapping[str, Any]]) -> Query:
    """A query from the form that `compiled.parse_grammar` gives it."""
    return tuple(
        Predicate(
            tuple((name, kind) for name, kind in predicate["parameters"]),
            tuple((name, tuple(types)) for name, types in predicate["signatures"]),
        )
        for predicate in data
    )


class Facts:
    """A set of facts by signature. `touched` collects the predicates that queries asked about since it was last
    emptied."""

    def __init__(self, facts: Mapping[Signature, Iterable[Arguments]]) -> None:
        self._facts = {signature: set(found) for signature, found in facts.items()}
        self._sorted: dict[Signature, list[Arguments]] = {}
        self.touched: set[str] = set()

    def add(self, signature: Signature, arguments: Arguments) -> None:
        """Make a fact true."""
        self._facts.setdefault(signature, set()).add(arguments)
        self._sorted.pop(signature, None)

    def remove(self, signature: Signature, arguments: Arguments) -> None:
        """Make a fact false; nothing happens when it was."""
        self._facts.get(signature, set()).discard(arguments)
        self._sorted.pop(signature, None)

    def matches(self, query: Query, bindings: Bindings) -> Iterator[dict[Variable, Variable]]:
        """All extensions of `bindings` under which every predicate of the query is a fact."""
        return self._match(query, 0, dict(bindings), set(bindings.values()))

    def _match(
        self, query: Query, depth: int, bindings: dict[Variable, Variable], used: set[Variable]
    ) -> Iterator[dict[Variable, Variable]]:
        if depth == len(query):
            yield dict(bindings)
            return
        predicate = query[depth]
        for signature in predicate.signatures:
            self.touched.add(signature[0])
            for arguments in self._in_order(signature):
                bound = []
                for placeholder, variable in zip(predicate.parameters, arguments, strict=True):
                    existing = bindings.get(placeholder)
                    if existing is None:
                        if variable in used:
                            break
                        bindings[placeholder] = variable
                        used.add(variable)
                        bound.append(placeholder)
                    elif existing != variable:
                        break
                else:
                    yield from self._match(query, depth + 1, bindings, used)
                for placeholder in bound:
                    used.discard(bindings.pop(placeholder))

    def _in_order(self, signature: Signature) -> list[Arguments]:
        found = self._sorted.get(signature)
        if found is None:
            found = self._sorted[signature] = sorted(self._facts.get(signature, ()))
        return found
