"""Which advice is the same, which contradicts, which speaks of something else."""

import pytest
from memory_parts import trajectory

from mh_train.memory.signature import entity_words, signature

ROOM = trajectory("t", goal="put a clean bread in fridge", observations=["You see a statue 1 and a drawer 2."])
THINGS = entity_words([ROOM]) | {"cabinet", "egg"}


def drawn(content: str, when: str = "", goal: str = ROOM.goal):
    return signature("procedural_hint", "toy", "pick", content, when, goal, THINGS)


def test_names_come_from_goal_actions_and_numbered_things():
    assert {"bread", "fridge", "drawer", "statue", "1"} <= entity_words([ROOM])
    assert not {"take", "see", "from", "the", "put", "clean"} & entity_words([ROOM])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("look for the bread in drawer 1", "search: bread, drawer 1"),
        ("take the bread from the drawers", "grab the bread from a drawer"),
        ("never open the drawer for bread", "do not open the drawer for bread"),
    ],
)
def test_paraphrases_recommend_the_same(one, other):
    a, b = drawn(one), drawn(other)
    assert a.same_case(b) and a.same_action(b)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("bread is in drawer 1", "bread is in drawer 2"),
        ("bread is in drawer 1", "bread is in cabinet 1"),
        ("open the drawer for bread", "do not open the drawer for bread"),
        ("choose size large", "choose size small"),
        ("heat it, then take the bread", "take the bread, then heat it"),
    ],
)
def test_opposites_are_the_same_case_with_another_action(one, other):
    a, b = drawn(one), drawn(other)
    assert a.same_case(b) and not a.same_action(b)


def test_another_subject_or_condition_is_another_case():
    assert not drawn("bread is in drawer 1").same_case(drawn("egg is in drawer 1", goal="heat egg"))
    assert not drawn("bread is in drawer 1", "room with statue").same_case(
        drawn("bread is in drawer 1", "room with cabinet")
    )
