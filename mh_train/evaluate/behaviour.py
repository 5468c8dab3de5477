"""How a policy uses its memory (MemHarness figures 3 and 4, table 4): asked, accepted, rejected; copied or rewritten;
grounded in the state or not; what followed.

Why: success alone does not say whether a policy reconstructs or only replays in other words.
Invariants: pure functions of trajectories; every number can be computed again from the `asked` entries that evaluation
keeps of each episode; what cannot be measured (nothing was accepted, nothing named) is None, never 0.
Run: `mh-train audit behaviour runs/NAME`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from statistics import fmean
from typing import Any

from mh_train.agent.types import Retrieval, Trajectory
from mh_train.memory.index import words
from mh_train.memory.signature import entity_words, things_in

Ask = Mapping[str, Any]
"""One retrieval as plain data, see `asks`."""
Episode = tuple[float, Sequence[Ask]]
"""(success, its retrievals)."""
OUTCOMES = ("accepted", "rejected", "empty", "replayed")


def asks(trajectory: Trajectory, things: Set[str] | None = None) -> list[dict[str, Any]]:
    """Every retrieval of an episode: what was asked, found and made of it, and the action that followed.

    `copy`, `distance`, `grounding` and `grounding_goal` of accepted ones are those of `rewriting`; `things` are the
    environment's words for things (by default those of this episode).
    """
    names = entity_words([trajectory]) if things is None else things
    found = []
    for one in trajectory.retrievals:
        after = trajectory.steps[one.step] if one.step < len(trajectory.steps) else None
        found.append(
            {
                "step": one.step,
                "query": one.query,
                "records": [hit.record_id for hit in one.hits],
                "guards": [hit.record_id for hit in one.hits if hit.role == "guard"],
                "outcome": one.outcome,
                "guidance": one.guidance,
                **rewriting(trajectory, one, names),
                "action": after.action if after else "",
                "lost": bool(after and (after.malformed or after.inadmissible)),
            }
        )
    return found


def rewriting(trajectory: Trajectory, retrieval: Retrieval, things: Set[str]) -> dict[str, Any]:
    """What an accepted reconstruction g_t is beside its memories and its state o_t.

    `copy`: its words are those of one of the memories. `distance`: edit distance in words to the nearest memory, over
    the longer of the two (0 the same, 1 nothing in common). `grounding`: share of the things that g_t names that occur
    in o_t; `grounding_goal`: in o_t or in the task. All None for what was not accepted, grounding also without
    names."""
    if retrieval.outcome != "accepted":
        return dict.fromkeys(("copy", "distance", "grounding", "grounding_goal"))
    distance = min(edit_distance(retrieval.guidance, hit.memory) for hit in retrieval.hits)
    at = retrieval.step
    state = trajectory.steps[at].observation if at < len(trajectory.steps) else trajectory.final_observation
    named = {thing for thing in things_in(retrieval.guidance) & things if not thing.isdigit()}
    seen = things_in(state)
    return {
        "copy": distance == 0,
        "distance": round(distance, 6),
        "grounding": len(named & seen) / len(named) if named else None,
        "grounding_goal": len(named & (seen | things_in(trajectory.goal))) / len(named) if named else None,
    }


def edit_distance(a: str, b: str) -> float:
    """Levenshtein distance in words (case and punctuation do not count) over the longer length; 0 for two empty
    texts."""
    first, second = words(a), words(b)
    row = list(range(len(second) + 1))
    for i, word in enumerate(first, 1):
        last, row[0] = row[0], i
        for j, other in enumerate(second, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (word != other))
    return row[-1] / max(len(first), len(second), 1)


def behaviour(episodes: Sequence[Episode]) -> dict[str, Any]:
    """The numbers of a set of episodes.

    Counts are per episode. `when_accepted` and `when_rejected` take episodes with at least one accepted or rejected
    reconstruction, as the paper does, so that an episode can be in both. `reject_rate` is over reconstructions,
    `reject_rate_per_memory` the mean over records of the share of their reconstructions that rejected (table 4)."""
    every = [ask for _, asked in episodes for ask in asked]
    decided = [ask for ask in every if ask["outcome"] in ("accepted", "rejected")]
    warned = [(won, asked) for won, asked in episodes if any(ask["guards"] for ask in asked)]
    after = [float(ask["lost"]) for ask in every if ask["guards"]]
    return {
        "episodes": len(episodes),
        "retrievals": len(every) / max(len(episodes), 1),
        **{name: sum(ask["outcome"] == name for ask in every) / max(len(episodes), 1) for name in OUTCOMES},
        "when_accepted": _success(episodes, "accepted"),
        "when_rejected": _success(episodes, "rejected"),
        "reject_rate": _mean(float(ask["outcome"] == "rejected") for ask in decided),
        "reject_rate_per_memory": _mean(
            one["rejected"] / (one["accepted"] + one["rejected"])
            for one in records(episodes).values()
            if one["accepted"] + one["rejected"]
        ),
        **{name: _mean(ask[name] for ask in every) for name in ("copy", "distance", "grounding", "grounding_goal")},
        "guards": {
            "episodes": len(warned),
            "success": _mean(won for won, _ in warned),
            "success_without": _mean(won for won, asked in episodes if not any(ask["guards"] for ask in asked)),
            "lost_step_after": _mean(after),
        },
    }


def records(episodes: Sequence[Episode]) -> dict[str, dict[str, int]]:
    """What became of every record that was retrieved, by id: episodes that met it (`uses`), how many of these were won,
    and reconstructions that held it by outcome."""
    found: dict[str, dict[str, int]] = {}
    for won, asked in episodes:
        for name in sorted({name for ask in asked for name in ask["records"]}):
            one = found.setdefault(name, dict.fromkeys(("uses", "won", "accepted", "rejected", "replayed"), 0))
            one["uses"] += 1
            one["won"] += int(won)
            for ask in asked:
                if name in ask["records"]:
                    one[ask["outcome"]] += 1
    return dict(sorted(found.items()))


def timelines(updates: Mapping[int, Sequence[Episode]]) -> dict[str, list[dict[str, int]]]:
    """Record id -> its counts in every update in which it was retrieved, in order."""
    found: dict[str, list[dict[str, int]]] = {}
    for update in sorted(updates):
        for name, counts in records(updates[update]).items():
            found.setdefault(name, []).append({"update": update, **counts})
    return dict(sorted(found.items()))


def episodes_of(trajectories: Sequence[Trajectory]) -> list[Episode]:
    """Trajectories of one environment as (success, asks), with the words for things that occur in any of them."""
    things = entity_words(trajectories)
    return [(float(trajectory.won), asks(trajectory, things)) for trajectory in trajectories]


def training_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """The behaviour of one update for `metrics.jsonl` (`memory/...`); what cannot be measured is left out."""
    found = behaviour(episodes_of(trajectories))
    named = {
        "success_when_accepted": found["when_accepted"]["success"],
        "success_when_rejected": found["when_rejected"]["success"],
        "reject_rate": found["reject_rate"],
        "copy_rate": found["copy"],
        "rewrite_distance": found["distance"],
        "grounding": found["grounding"],
        "guard_success": found["guards"]["success"],
    }
    return {f"memory/{name}": value for name, value in named.items() if value is not None}


def _success(episodes: Sequence[Episode], outcome: str) -> dict[str, Any]:
    those = [won for won, asked in episodes if any(ask["outcome"] == outcome for ask in asked)]
    return {"episodes": len(those), "success": _mean(those)}


def _mean(values: Any) -> float | None:
    known = [float(value) for value in values if value is not None]
    return fmean(known) if known else None
