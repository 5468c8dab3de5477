"""One game, compiled: everything about it that does not change while it is played, shared by all engines of a process.

Why: a GRPO group plays one game many times at once; what the first of them learned about an operator's command or the
opening text serves all others.
Invariant: two engines that play the same `Game` never see each other; the memos here only ever hold what the texts
imply.
"""

from __future__ import annotations

import json
import os
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

from envs.alfworld import compiled
from envs.alfworld.disk import DiskCache
from envs.alfworld.grammar import Entity, Grammar, Symbols
from envs.alfworld.names import shown_names
from envs.alfworld.state import Arguments, Facts, Signature, Variable
from envs.base import EnvDataError

KEPT_GAMES = 128
"""Games kept in memory per process."""

_TASK = re.compile(r'(?<=Your task is to: )[^"\\#{}\[\]|;<>\n\t]*(?=")')
_BLANK = "@@@"
"""Stands for the task sentence in the parsed grammar, so that all games share one."""

Effect = tuple[Signature, Signature, Arguments]
"""(signature of the fact that became true, signature of its negation, arguments); a false fact p is a true fact
not_p."""


@dataclass(eq=False, slots=True)
class Operator:
    """A grounded action. `command` is None as long as it is unknown, and always when it depends on the state."""

    bindings: Mapping[Variable, Variable]
    template: Symbols
    feedback: Symbols
    command: str | None = None


class Game:
    """A game file's content, compiled. Make it with `Games.get`.

    `operators` (by the planner's number) and `opening` are memos that engines fill.
    """

    def __init__(self, translation: Mapping[str, Any], grammar: Grammar, sentence: str | None) -> None:
        self.sas: str = translation["sas"]
        self.grammar = grammar
        self.entities: dict[str, Entity] = {}
        self.operators: dict[int, Operator] = {}
        self.opening: Any = None
        self._translation = translation
        self._sentence = sentence
        self._types: dict[str, str] = translation["objects"]
        self._dynamic = frozenset(translation["dynamic"])
        self._facts: dict[Signature, set[Arguments]] = {}
        self._effects: dict[bytes, Effect] = {}
        self._named: dict[str, Operator] = {}

    def set_initial_state(self, atoms: list[bytes]) -> None:
        """Take in the planner's first state; with the problem's facts it is what is true at the start."""
        for name, pairs in self._translation["init"]:
            arguments = tuple((thing, kind) for thing, kind in pairs)
            self._facts.setdefault(_signature(name, arguments), set()).add(arguments)
        for signature, _, arguments in map(self.effect, atoms):
            if not signature[0].startswith("not_"):
                self._facts.setdefault(signature, set()).add(arguments)
        names = shown_names(thing for facts in self._facts.values() for fact in facts for thing, _ in fact)
        self.entities = {thing: Entity(thing, self._types[thing], shown) for thing, shown in names.items()}

    def initial_facts(self) -> Facts:
        """A fresh set of what is true at the start."""
        return Facts(self._facts)

    def effect(self, atom: bytes) -> Effect:
        """An atom as the planner writes it, b"NegatedAtom holds(agent1, mug1)", taken apart."""
        effect = self._effects.get(atom)
        if effect is None:
            kind, _, rest = atom.decode("cp1252").partition(" ")
            name, _, things = rest.partition("(")
            arguments = tuple((thing, self._types[thing]) for thing in things[:-1].split(", ") if thing)
            fact, negation = _signature(name, arguments), _signature(f"not_{name}", arguments)
            effect = (negation, fact, arguments) if kind == "NegatedAtom" else (fact, negation, arguments)
            self._effects[atom] = effect
        return effect

    def operator(self, name: str) -> Operator:
        """The operator that the planner calls `name`: "openobject agent1 loc1 fridge1"."""
        operator = self._named.get(name)
        if operator is None:
            action, *things = name.split()
            template, feedback = self.grammar.actions[action]
            parameters = self._translation["actions"][action]
            bindings = {
                (parameter, kind): (thing, kind) for (parameter, kind), thing in zip(parameters, things, strict=False)
            }
            operator = self._named[name] = Operator(bindings, template, feedback)
        return operator

    def command(self, operator: Operator, facts: Facts) -> str:
        """The command that an agent types for an operator. Kept, unless deriving it asked about facts that can
        change."""
        if operator.command is not None:
            return operator.command
        facts.touched.clear()
        text = self.text(operator.template, operator.bindings, facts)
        if "{" in text:
            text = text.format(**{thing: entity.name for thing, entity in self.entities.items()})
        if not facts.touched & self._dynamic:
            operator.command = text
        return text

    def text(self, symbols: Symbols, bindings: Mapping[Variable, Variable], facts: Facts) -> str:
        """The text that the game's grammar gives for `symbols`."""
        text = self.grammar.derive(symbols, bindings, facts, self.entities)
        return text if self._sentence is None else text.replace(_BLANK, self._sentence)


def _signature(name: str, arguments: Arguments) -> Signature:
    return name, tuple(kind for _, kind in arguments)


class Games:
    """The games of this process by file: at most `KEPT_GAMES` in memory, their parts on disk under `folder` (None:
    nowhere)."""

    def __init__(self, folder: str | None) -> None:
        self._disk = DiskCache(folder)
        self._versions = f"{compiled.VERSION}/{version('textworld')}/{version('fast_downward_textworld')}"
        self._games: OrderedDict[tuple[str, int, int], Game] = OrderedDict()
        self._grammars: dict[str, Grammar] = {}

    @staticmethod
    @cache
    def shared(folder: str | None) -> Games:
        """The one `Games` of this process for a folder, so that all its environments share what is compiled."""
        return Games(folder)

    def get(self, path: str) -> Game:
        """The game in the file at `path`. Raises `EnvDataError` when it is missing or broken."""
        try:
            status = os.stat(path)
        except OSError as error:
            raise EnvDataError(f"The ALFWorld game file {path} cannot be read ({error.strerror}).") from error
        key = (path, status.st_mtime_ns, status.st_size)
        game = self._games.get(key)
        if game is None:
            game = self._games[key] = self._compile(path)
            if len(self._games) > KEPT_GAMES:
                self._games.popitem(last=False)
        self._games.move_to_end(key)
        return game

    def _compile(self, path: str) -> Game:
        data = read_game(path)
        domain, problem, grammar = data["pddl_domain"], data["pddl_problem"], data["grammar"]
        try:
            translation = self._disk.get(
                (self._versions, "task", domain, problem), lambda: compiled.translate(domain, problem)
            )
            sentences = _TASK.findall(grammar)
            sentence = sentences[0] if len(sentences) == 1 and _BLANK not in grammar else None
            shared = grammar if sentence is None else _TASK.sub(_BLANK, grammar)
            return Game(translation, self._grammar(shared, translation["types"]), sentence)
        except ValueError as error:
            raise EnvDataError(f"The ALFWorld game file {path} is broken: {error}") from error

    def _grammar(self, text: str, types: compiled.Types) -> Grammar:
        key = json.dumps([text, types])
        if key not in self._grammars:
            data = self._disk.get((self._versions, "grammar", key), lambda: compiled.parse_grammar(text, types))
            self._grammars[key] = Grammar(data)
        return self._grammars[key]


def read_game(path: str) -> dict[str, str]:
    """The texts of a game file. Raises `EnvDataError` that says what is wrong with it."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError) as error:
        raise EnvDataError(
            f"The ALFWorld game file {path} cannot be read ({error}); download or generate it again."
        ) from error
    for key in ("pddl_domain", "grammar", "pddl_problem"):
        if not isinstance(data, dict) or not isinstance(data.get(key), str):
            raise EnvDataError(
                f"The ALFWorld game file {path} has no text under {key!r}; download or generate it again."
            )
    return data
