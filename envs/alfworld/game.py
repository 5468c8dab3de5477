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

KEPT_BYTES = 32 * 2**20
"""Size of the planning tasks kept in memory per process: 32 large kitchens or 500 small rooms. A game takes about
five times its task."""

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

    def __init__(self, path: str, translation: Mapping[str, Any], grammar: Grammar, sentence: str | None) -> None:
        self.sas: bytes = translation["sas"].encode()
        self.entities: dict[str, Entity] = {}
        self.operators: dict[int, Operator] = {}
        self.opening: Any = None
        self._path, self._grammar, self._sentence = path, grammar, sentence
        self._types: dict[str, str] = translation["objects"]
        self._parameters: dict[str, list[Variable]] = translation["actions"]
        self._dynamic = {name for fact in translation["dynamic"] for name in (fact, f"not_{fact}")}
        self._facts: dict[Signature, set[Arguments]] = {}
        for name, pairs in translation["init"]:
            arguments = tuple((thing, kind) for thing, kind in pairs)
            self._facts.setdefault(_signature(name, arguments), set()).add(arguments)
        self._effects: dict[bytes, Effect] = {}
        self._named: dict[str, Operator] = {}

    def set_initial_state(self, atoms: list[bytes]) -> None:
        """Take in the planner's first state; with the problem's facts it is what is true at the start."""
        for signature, _, arguments in (self.effect(atom) for atom in atoms if atom.startswith(b"Atom ")):
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
            if action not in self._grammar.actions:
                raise EnvDataError(f"The grammar of the ALFWorld game file {self._path} has no action {action!r}.")
            parameters = zip(self._parameters[action], things, strict=False)  # the translator adds some of its own
            bindings = {(parameter, kind): (thing, kind) for (parameter, kind), thing in parameters}
            operator = self._named[name] = Operator(bindings, *self._grammar.actions[action])
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
        """The text that the game's grammar gives for `symbols`. Raises `EnvDataError` for a broken grammar."""
        try:
            text = self._grammar.derive(symbols, bindings, facts, self.entities)
        except (LookupError, NameError, AttributeError, TypeError) as error:
            raise EnvDataError(
                f"The grammar of the ALFWorld game file {self._path} is broken ({type(error).__name__}: {error})."
            ) from error
        return text if self._sentence is None else text.replace(_BLANK, self._sentence)


def _signature(name: str, arguments: Arguments) -> Signature:
    return name, tuple(kind for _, kind in arguments)


class Games:
    """The games of this process by file: `KEPT_BYTES` of them in memory, their parts on disk below `folder` (None:
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
        if key not in self._games:
            self._games[key] = self._compile(path)
            while len(self._games) > 1 and sum(len(game.sas) for game in self._games.values()) > KEPT_BYTES:
                self._games.popitem(last=False)
        self._games.move_to_end(key)
        return self._games[key]

    def _compile(self, path: str) -> Game:
        data = read_game(path)
        domain, problem, text = data["pddl_domain"], data["pddl_problem"], data["grammar"]
        try:
            key = (self._versions, "task", domain, problem)
            translation = self._disk.get(key, lambda: compiled.translate(domain, problem))
            sentences = _TASK.findall(text)
            sentence = sentences[0] if len(sentences) == 1 and _BLANK not in text else None
            grammar = self._grammar(text if sentence is None else _TASK.sub(_BLANK, text), translation["types"])
        except ValueError as error:
            raise EnvDataError(f"The ALFWorld game file {path} is broken: {error}") from error
        return Game(path, translation, grammar, sentence)

    def _grammar(self, text: str, types: compiled.Types) -> Grammar:
        key = json.dumps([text, types])
        if key not in self._grammars:
            data = self._disk.get((self._versions, "grammar", key), lambda: compiled.parse_grammar(text, types))
            if len(self._grammars) == 16:  # sentences too odd to be blanked out give each game a grammar of its own
                self._grammars.clear()
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
