"""What policies do with their memory, on episodes small enough to count by hand."""

import pytest

from mh_train.agent.types import MemoryHit, Retrieval, Step, Trajectory
from mh_train.evaluate.behaviour import (
    asks,
    behaviour,
    edit_distance,
    episodes_of,
    records,
    timelines,
    training_metrics,
)

ROOM = "You see a drawer 1, a shelf 1, and a toaster 1."
BREAD = MemoryHit("m1", "Bread was in drawer 1.", ROOM)
WARNING = MemoryHit("m9", "check that the drawer is open", ROOM, role="guard")


def episode(*retrievals, won=True, inadmissible=False):
    made = Trajectory("t", "alfworld", "train", "task", "pick", "put some bread in fridge", 0, 0)
    made.steps = [
        Step(ROOM, ("go to drawer 1", "go to shelf 1"), "go to drawer 1"),
        Step("You arrive at drawer 1.", ("open drawer 1",), "open drawer 1", inadmissible=inadmissible),
    ]
    made.retrievals, made.won, made.final_observation = list(retrievals), won, "You open the drawer 1."
    return made


def accepted(guidance, *hits, step=0):
    return Retrieval(step, "where is bread", hits or (BREAD,), "accepted", guidance)


REJECTED = Retrieval(1, "where is bread", (BREAD,), "rejected")


@pytest.mark.parametrize(
    "a, b, distance",
    [
        ("bread was in drawer 1", "Bread was in drawer 1.", 0.0),
        ("bread is in drawer 1", "bread was in drawer 1", 1 / 5),
        ("look in the drawer", "drawer", 3 / 4),
        ("", "", 0.0),
        ("", "two words", 1.0),
    ],
)
def test_edit_distance_in_words(a, b, distance):
    assert edit_distance(a, b) == pytest.approx(distance) == edit_distance(b, a)


def test_a_copy_is_a_copy_whatever_its_case_and_the_nearest_memory_counts():
    other = MemoryHit("m2", "mugs were on the shelf", ROOM)
    [copied] = asks(episode(accepted("bread was in Drawer 1", other, BREAD)))
    [rewritten] = asks(episode(accepted("bread is in shelf 1", other, BREAD)))
    assert (copied["copy"], copied["distance"]) == (True, 0.0)
    assert (rewritten["copy"], rewritten["distance"]) == (False, pytest.approx(2 / 5))


def test_grounding_is_the_share_of_named_things_that_are_seen():
    [ask] = asks(
        episode(accepted("the bread is near the toaster or on the shelf")), {"bread", "toaster", "shelf", "sofa"}
    )
    assert ask["grounding"] == pytest.approx(2 / 3) and ask["grounding_goal"] == 1.0
    [later] = asks(episode(accepted("bread on the shelf", step=1)), {"bread", "shelf"})
    assert later["grounding"] == 0.0 and later["grounding_goal"] == 0.5
    [nothing] = asks(episode(accepted("take care")))
    assert nothing["grounding"] is None


def test_what_was_not_accepted_has_no_text_to_measure():
    [ask] = asks(episode(REJECTED))
    assert ask["outcome"] == "rejected" and ask["copy"] is None and ask["distance"] is None


def test_the_action_after_a_retrieval_is_kept():
    first, second = asks(episode(accepted("go"), REJECTED, inadmissible=True))
    assert (first["action"], first["lost"], second["action"], second["lost"]) == (
        "go to drawer 1",
        False,
        "open drawer 1",
        True,
    )


def test_rates_by_hand():
    episodes = episodes_of(
        [
            episode(accepted("bread was in drawer 1"), REJECTED),
            episode(accepted("look on the shelf"), won=False),
            episode(REJECTED, won=False),
            episode(Retrieval(0, "q", (), "empty")),
        ]
    )
    got = behaviour(episodes)
    assert (got["retrievals"], got["accepted"], got["rejected"], got["empty"]) == (5 / 4, 0.5, 0.5, 0.25)
    assert got["when_accepted"] == {"episodes": 2, "success": 0.5}
    assert got["when_rejected"] == {"episodes": 2, "success": 0.5}
    assert got["reject_rate"] == 0.5 and got["copy"] == 0.5


def test_reject_rate_per_memory_weighs_records_alike():
    rare = MemoryHit("m2", "eggs were in the fridge", ROOM)
    often = [episode(REJECTED) for _ in range(3)]
    got = behaviour(episodes_of([*often, episode(accepted("eggs are in the fridge", rare))]))
    assert got["reject_rate"] == pytest.approx(3 / 4) and got["reject_rate_per_memory"] == pytest.approx(1 / 2)


def test_guards_and_what_happened_after():
    got = behaviour(
        episodes_of(
            [
                episode(accepted("check the drawer", BREAD, WARNING)),
                episode(Retrieval(1, "q", (WARNING,), "rejected"), won=False, inadmissible=True),
                episode(won=True),
            ]
        )
    )["guards"]
    assert got == {"episodes": 2, "success": 0.5, "success_without": 1.0, "lost_step_after": 0.5}


def test_nothing_asked_means_nothing_measured():
    got = behaviour([(1.0, [])])
    assert got["retrievals"] == 0 and got["reject_rate"] is None and got["when_accepted"]["success"] is None
    assert training_metrics([episode()]) == {}


def test_a_record_counts_once_per_episode_and_its_outcomes_by_reconstruction():
    twice = episode(accepted("go to drawer 1"), REJECTED)
    lost = episode(REJECTED, won=False)
    assert records(episodes_of([twice, lost])) == {
        "m1": {"uses": 2, "won": 1, "accepted": 1, "rejected": 2, "replayed": 0}
    }


def test_timelines_follow_a_record_through_the_updates():
    lines = timelines({3: episodes_of([episode(REJECTED)]), 1: episodes_of([episode(accepted("go to drawer 1"))])})
    assert [(one["update"], one["accepted"], one["rejected"]) for one in lines["m1"]] == [(1, 1, 0), (3, 0, 1)]


def test_training_metrics_name_what_was_measured():
    got = training_metrics([episode(accepted("bread was in drawer 1")), episode(REJECTED, won=False)])
    assert got["memory/success_when_accepted"] == 1.0 and got["memory/success_when_rejected"] == 0.0
    assert got["memory/copy_rate"] == 1.0 and "memory/guard_success" not in got
