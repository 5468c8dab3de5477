"""From a game's PDDL and grammar texts to plain data, once per text, by TextWorld's and Fast Downward's own parsers.

Why: the stock environment parses templates and queries anew for every applicable action of every step and translates
the problem to SAS four times per reset; that is 95 % of its time. What it would get is the same each time, so it is
kept.
Invariant: the data is JSON (it is stored on disk, see `disk`) and depends on nothing but the texts given.

`translate` -> {"sas", "types", "objects", "actions", "init", "dynamic"}; `parse_grammar` -> {"actions", "rules"} (see
there). Importing textworld takes 1.6 CPU-seconds, so it happens inside `parse_grammar` only, which a warm cache never
calls.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

VERSION = "1"
"""Changes whenever the form of the data below does."""

Types = Sequence[tuple[str, Sequence[str]]]
"""(type, its supertypes) pairs in the order of the domain."""


def translate(domain: str, problem: str) -> dict[str, Any]:
    """The planning task of a PDDL domain and problem.

    `sas`: the task for `Library.load`. `types`: (name, supertypes) pairs. `actions`: parameters (name without "?",
    type) by action name. `init`: initial facts as [predicate, [[object, type], ...]]. `objects`: type by object name.
    `dynamic`: the predicates that actions change. Raises `ValueError` with the translator's words for broken PDDL.
    """
    argv = sys.argv
    try:
        from fast_downward.interface import pddl2sas

        task, sas = pddl2sas(domain, problem)  # overwrites sys.argv
    except (SystemExit, Exception) as error:
        raise ValueError(f"Its PDDL cannot be translated ({type(error).__name__}: {error}).") from error
    finally:
        sys.argv = argv
    types = {thing.name: thing.type_name for thing in task.objects}
    changed = {effect.literal.predicate for action in task.actions for effect in action.effects}
    return {
        "sas": sas,
        "types": [(kind.name, list(kind.supertype_names)) for kind in task.types],
        "objects": types,
        "actions": {
            action.name: [(parameter.name.strip("?"), parameter.type_name) for parameter in action.parameters]
            for action in task.actions
        },
        "init": [
            (atom.predicate, [(argument, types[argument]) for argument in atom.args])
            for atom in task.init
            if type(atom).__name__ == "Atom" and atom.predicate != "="
        ],
        "dynamic": sorted(changed | {axiom.name for axiom in task.axioms}),
    }


def parse_grammar(grammar: str, types: Types) -> dict[str, Any]:
    """The text grammar of a game in its `.twl2` form.

    `actions`: by lower-case name, {"template": symbols, "feedback": symbols}. `rules`: by name, the alternatives in
    order as {"condition": query or None, "symbols": symbols}. A symbol is ["text", literal], ["rule", name] or ["each",
    kind, text, query or None, is_list] with kind "eval" or "rule": the expression for each match of the query. A query
    is a list of {"parameters": [[name, type], ...], "signatures": [[predicate, [type, ...]], ...]}, where the
    signatures are the predicate's types with all combinations of their subtypes, in TextWorld's order. Raises
    `ValueError` for a grammar that TextWorld cannot parse.
    """
    from textworld.envs.pddl.logic import GameLogic
    from textworld.logic import Type, TypeHierarchy

    hierarchy = TypeHierarchy()
    for name, supertypes in dict(reversed([*types])).items():  # the first of two definitions counts
        hierarchy.add(Type(name, supertypes))
    try:
        logic = GameLogic(domain="", grammar=grammar)
        return {
            "actions": {
                name: {
                    "template": _parse_symbols(action.template, hierarchy),
                    "feedback": _parse_symbols(action.feedback_rule, hierarchy),
                }
                for name, action in logic.actions.items()
            },
            "rules": {
                name: [
                    {
                        "condition": _query(rule.condition, hierarchy) if rule.condition else None,
                        "symbols": [_symbol(symbol, hierarchy) for symbol in rule.rhs],
                    }
                    for rule in rules
                ]
                for name, rules in logic.grammar._rules.items()
            },
        }
    except Exception as error:
        raise ValueError(f"Its grammar cannot be parsed ({type(error).__name__}: {error}).") from error


def _parse_symbols(text: str, hierarchy: Any) -> list[Any]:
    from textworld.envs.pddl.textgen import _parse_and_convert

    return [_symbol(symbol, hierarchy) for symbol in _parse_and_convert(text, rule_name="symbols")]


def _symbol(symbol: Any, hierarchy: Any) -> list[Any]:
    kind = type(symbol).__name__
    if kind == "TerminalSymbol":
        return ["text", str(symbol)]
    if kind == "NonterminalSymbol":
        return ["rule", str(symbol)]
    is_list = kind == "ListSymbol"
    each = symbol.symbol if is_list else symbol
    kind = "eval" if type(each.expression).__name__ == "EvalSymbol" else "rule"
    return ["each", kind, str(each.expression), _query(each.given, hierarchy) if each.given else None, is_list]


def _query(text: str, hierarchy: Any) -> list[Any]:
    from textworld.logic import Rule

    return [
        {
            "parameters": [(placeholder.name, placeholder.type) for placeholder in predicate.parameters],
            "signatures": [
                (predicate.signature.name, [kind.name for kind in kinds])
                for kinds in hierarchy.multi_subtypes([hierarchy.get(name) for name in predicate.signature.types])
            ],
        }
        for predicate in Rule.parse_conjunctive_query(text).preconditions
    ]
