"""One slot of the ALFWorld engine: the planner holds the state, the game's grammar says it in words.

Why: the same texts, commands, score and end as `textworld.envs.pddl.PddlEnv` under ALFWorld's wrappers, at a hundredth
of the CPU time (tests/parity, tests/bench).
Invariant: an engine owns one copy of the planner and plays one game at a time, any number in turn. Not thread-safe.

    engine = Engine()
    turn = engine.start(Games(None).get("…/game.tw-pddl"))
    turn = engine.step("go to fridge 1")
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace

from envs.alfworld import library
from envs.alfworld.game import Game, Operator
from envs.alfworld.grammar import RuleName
from envs.alfworld.state import Facts

INTRO = (RuleName("intro"),)
NOTHING = "Nothing happens."
"""The engine's answer to a command that is not admissible."""

Actions = dict[str, tuple[Operator, int, int]]
"""command -> (operator, its number, how many effects it has)"""


@dataclass(frozen=True)
class Turn:
    """What the engine says: its text, the admissible commands (sorted), whether the goal is reached, and whether the
    last command was one of the admissible ones."""

    feedback: str
    commands: tuple[str, ...]
    won: bool
    accepted: bool = True


class Engine:
    """A slot that plays games. `close` (or garbage collection) hands the planner's copy to the next engine."""

    def __init__(self) -> None:
        self._planner = library.borrow()
        self.close = weakref.finalize(self, library.give_back, self._planner)
        self._game: Game | None = None
        self._facts = Facts({})
        self._turn = Turn("", (), False)
        self._actions: Actions = {}

    def start(self, game: Game) -> Turn:
        """Put `game` into its first state. Raises `EnvDataError` for a broken grammar."""
        self._game = None  # what the planner holds fits no game until the end of this method
        self._planner.load(game.sas)
        if game.opening is None:
            game.set_initial_state(self._planner.atoms())
            self._facts = game.initial_facts()
            self._look(game, game.text(INTRO, {}, self._facts))
            game.opening = (self._turn, self._actions)
        else:
            self._facts = game.initial_facts()
            self._turn, self._actions = game.opening
        self._game = game
        return self._turn

    def step(self, command: str) -> Turn:
        """Do what `command` says. One that is not admissible is answered and changes nothing."""
        game = self._game
        if game is None:
            raise RuntimeError("This engine plays no game yet; call start(game) before step(command).")
        action = self._actions.get(command.strip())
        if action is None:
            self._turn = replace(self._turn, feedback=NOTHING, accepted=False)
            return self._turn
        operator, number, effects = action
        for atom in self._planner.apply(number, effects):
            fact, negation, arguments = game.effect(atom)
            self._facts.remove(negation, arguments)
            self._facts.add(fact, arguments)
        return self._look(game, game.text(operator.feedback, operator.bindings, self._facts))

    def _look(self, game: Game, feedback: str) -> Turn:
        """List what can be done now. Of operators with the same name or command the first counts, as in TextWorld."""
        actions: Actions = {}
        seen = set()
        for index, (number, effects) in enumerate(zip(*self._planner.applicable(), strict=True)):
            operator = game.operators.get(number)
            if operator is None:
                operator = game.operators[number] = game.operator(self._planner.operator_name(index))
            if operator not in seen:
                seen.add(operator)
                actions.setdefault(game.command(operator, self._facts), (operator, number, effects))
        self._actions = actions
        self._turn = Turn(feedback, tuple(sorted(actions)), self._planner.goal_reached())
        return self._turn
