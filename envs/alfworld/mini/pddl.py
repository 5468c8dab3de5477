"""From a game to the three files of the real data: `initial_state.pddl`, `game.tw-pddl`, `traj_data.json`.

Why: the engine and the stock loader read these; writing them is pure text, a millisecond a game.
Invariant: the same game gives the same bytes. The problem declares only what the game uses (kinds that do not occur,
and walking distances, change no text and only slow the engine's translation).
"""

from __future__ import annotations

import json
from functools import cache

from envs.alfworld.mini import assets
from envs.alfworld.mini.game import LOOK, Game, Point, escape, walkthrough

_NAMED_OTYPES = {"KnifeType", "ButterKnifeType"}
_NAMED_RTYPES = {"SinkBasinType", "MicrowaveType", "FridgeType"}
"""Types that the domain's actions name and every problem must therefore declare."""


def _location(point: Point) -> str:
    return escape("loc|{}|{}|{}|{}".format(*point))


def _declarations(game: Game) -> list[str]:
    otypes = {f"{thing.kind}Type" for thing in game.things} | _NAMED_OTYPES
    rtypes = {f"{place.kind}Type" for place in game.receptacles} | _NAMED_RTYPES
    points = {place.point for place in game.receptacles} | {game.start}
    return [
        "agent1 - agent",
        *(f"{kind} - otype" for kind in sorted(otypes)),
        *(f"{kind} - rtype" for kind in sorted(rtypes)),
        *(f"{escape(thing.id)} - object" for thing in game.things),
        *(f"{escape(place.id)} - receptacle" for place in game.receptacles),
        *sorted(f"{_location(point)} - location" for point in points),
    ]


def _facts(game: Game) -> list[str]:
    points = {place.id: _location(place.point) for place in game.receptacles}
    kinds = sorted({thing.kind for thing in game.things})
    facts = [f"receptacleType {escape(place.id)} {place.kind}Type" for place in game.receptacles]
    facts += [f"objectType {escape(thing.id)} {thing.kind}Type" for thing in game.things]
    for kind in sorted({place.kind for place in game.receptacles}):
        facts += [f"canContain {kind}Type {thing}Type" for thing in kinds if thing in assets.holds(kind)]
    facts += [f"openable {escape(p.id)}" for p in game.receptacles if p.kind in assets.openable_kinds()]
    facts.append(f"atLocation agent1 {_location(game.start)}")
    for thing in game.things:
        name = escape(thing.id)
        if thing.kind in assets.can("Toggleable"):
            facts.append(f"toggleable {name}")
        else:
            facts.append(f"pickupable {name}")
        if thing.kind in assets.containers():
            facts.append(f"isReceptacleObject {name}")
        for ability in ("Cleanable", "Heatable", "Coolable", "Sliceable"):
            if thing.kind in assets.can(ability):
                facts.append(f"{ability.lower()} {name}")
        facts.append(f"inReceptacle {name} {escape(thing.place)}")
        facts.append(f"objectAtLocation {name} {points[thing.place]}")
    facts += [f"receptacleAtLocation {escape(place.id)} {points[place.id]}" for place in game.receptacles]
    return facts


def problem(game: Game) -> str:
    """The PDDL problem of a game."""
    declarations = "\n        ".join(_declarations(game))
    facts = "\n        ".join(f"({fact})" for fact in _facts(game))
    goal = assets.goals()[game.type]["pddl"].format(obj=game.target, recep=game.parent, toggle=game.parent)
    return (
        f"(define (problem plan_trial_{game.index:05d})\n    (:domain alfred)\n"
        f"    (:objects\n        {declarations}\n    )\n"
        f"    (:init\n        (= (total-cost) 0)\n        {facts}\n    )\n" + goal.replace("#", "-").strip("\n") + "\n"
    )


@cache
def _shared_json() -> tuple[str, str, str]:
    """The JSON text that all games share: up to the task sentence, from there to the problem."""
    before, after = assets.grammar().split("UNKNOWN GOAL")
    return json.dumps(assets.domain()), json.dumps(before)[:-1], json.dumps(after)[1:]


def files(game: Game) -> dict[str, str]:
    """File name -> text of one game. Raises ValueError when the placement leaves the goal out of reach."""
    plan = walkthrough(game)
    if plan is None:
        raise ValueError(f"{game.folder} cannot be solved: fix the generator that placed its things")
    text = problem(game)
    domain, before, after = _shared_json()
    rest = json.dumps({"pddl_problem": text, "solvable": True, "walkthrough": plan})
    look = game.type == LOOK
    trajectory = {
        "task_id": f"trial_{game.index:05d}",
        "task_type": game.type,
        "pddl_params": {
            "object_target": game.target,
            "parent_target": "" if look else game.parent,
            "mrecep_target": "",
            "toggle_target": game.parent if look else "",
            "object_sliced": False,
        },
        "scene": {"floor_plan": f"FloorPlan{game.scene}", "scene_num": game.scene},
        "turk_annotations": {"anns": [{"task_desc": f"{game.task}.", "high_descs": []}]},
    }
    sentence = json.dumps(game.task)[1:-1]
    return {
        "game.tw-pddl": f'{{"pddl_domain": {domain}, "grammar": {before}{sentence}{after}, {rest[1:]}',
        "initial_state.pddl": text,
        "traj_data.json": json.dumps(trajectory, indent=1, sort_keys=True),
    }
