"""Deriving text from a game's grammar: the sentences of ALFWorld, word for word as TextWorld derives them.

Why: TextWorld's own derivation parses and deep-copies at every symbol. Here symbols are small objects made once, and a
context is nothing but the bindings of placeholders to objects.
Invariant: for the same facts and bindings the text equals `ContextSensitiveGrammar.derive` (tests/parity).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from envs.alfworld.state import Bindings, Facts, Query, query_from_data


@dataclass(slots=True)
class Entity:
    """An object as the grammar's expressions see it (`o.name`, `r.indefinite`); the fields of TextWorld's
    EntityInfo."""

    id: str
    type: str
    name: str
    definite: str = "the"
    indefinite: str = "a"
    noun: str | None = None
    adj: str | None = None
    desc: str | None = None
    room_type: str | None = None
    synonyms: list[str] | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Text:
    """Literal text."""

    literal: str


@dataclass(frozen=True, slots=True)
class RuleName:
    """The text of the first alternative of a rule whose condition holds."""

    name: str


@dataclass(frozen=True, slots=True)
class Each:
    """An expression for each match of a query (once without one); a list is joined with the grammar's separators."""

    expression: CodeType | RuleName
    query: Query | None
    is_list: bool


Symbol = Text | RuleName | Each
Symbols = tuple[Symbol, ...]


class Grammar:
    """A grammar from the data of `compiled.parse_grammar`. `actions`: (template, feedback) symbols by action name."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.actions: dict[str, tuple[Symbols, Symbols]] = {
            name: (_symbols(action["template"]), _symbols(action["feedback"]))
            for name, action in data["actions"].items()
        }
        self._rules: dict[str, list[tuple[Query | None, Symbols]]] = {
            name: [
                (query_from_data(rule["condition"]) if rule["condition"] else None, _symbols(rule["symbols"]))
                for rule in rules
            ]
            for name, rules in data["rules"].items()
        }

    def derive(self, symbols: Symbols, bindings: Bindings, facts: Facts, entities: Mapping[str, Entity]) -> str:
        """The text of `symbols`. Raises `KeyError` for a rule that the grammar lacks."""
        return "".join(self._derive(symbol, bindings, facts, entities) for symbol in symbols)

    def _derive(self, symbol: Symbol, bindings: Bindings, facts: Facts, entities: Mapping[str, Entity]) -> str:
        if isinstance(symbol, Text):
            return symbol.literal
        if isinstance(symbol, RuleName):
            for condition, symbols in self._rules[symbol.name]:
                if condition is None or next(facts.matches(condition, bindings), None) is not None:
                    return self.derive(symbols, bindings, facts, entities)
            raise KeyError(symbol.name)
        contexts = [bindings] if symbol.query is None else facts.matches(symbol.query, bindings)
        if isinstance(symbol.expression, RuleName):
            pieces = [self._derive(symbol.expression, context, facts, entities) for context in contexts]
        else:
            pieces = [_evaluate(symbol.expression, context, entities) for context in contexts]
        if not symbol.is_list or len(pieces) == 1:
            return "".join(pieces)
        if not pieces:
            return self._derive(RuleName("list_empty"), bindings, facts, entities)
        head = self._derive(RuleName("list_separator"), bindings, facts, entities).join(pieces[:-1])
        return head + self._derive(RuleName("list_last_separator"), bindings, facts, entities) + pieces[-1]


def _evaluate(code: CodeType, bindings: Bindings, entities: Mapping[str, Entity]) -> str:
    names = {placeholder[0]: entities[variable[0]] for placeholder, variable in bindings.items()}
    return str(eval(code, {}, names))


def _symbols(data: Sequence[Any]) -> Symbols:
    return tuple(_symbol(*symbol) for symbol in data)


def _symbol(
    kind: str, text: str, expression: str = "", query: Sequence[Any] | None = None, is_list: bool = False
) -> Symbol:
    if kind == "text":
        return Text(text)
    if kind == "rule":
        return RuleName(text)
    code = compile(expression, "<game grammar>", "eval") if text == "eval" else RuleName(expression)
    return Each(code, query_from_data(query) if query else None, is_list)
