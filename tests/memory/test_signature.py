"""Which advice is the same, which contradicts, which speaks of something else."""

import pytest
from memory_parts import record, trajectory

from mh_train.memory.signature import entity_words, same_advice, signature

ROOM = trajectory("t", goal="put a clean bread in fridge", observations=["You see a statue 1 and a drawer 2."])
THINGS = entity_words([ROOM]) | {"cabinet", "egg"}


def drawn(content: str, when: str = "", goal: str = ROOM.goal):
    return signature("procedural_hint", "toy", "pick", content, when, goal, THINGS)


def same(one: str, other: str, *things) -> bool:
    known = things or (THINGS, THINGS)
    a, b = (
        record(text, signature=signature("procedural_hint", "toy", "pick", text, "", ROOM.goal, names))
        for text, names in zip((one, other), known, strict=True)
    )
    return same_advice(a, b)


def test_names_come_from_goal_actions_and_numbered_things():
    assert {"bread", "fridge", "drawer", "statue", "1"} <= entity_words([ROOM])
    assert {"velora", "lamp"} <= entity_words([trajectory("t", observations=["Page 1 'Velora Desk Lamp' $3"])])
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
    assert drawn(one).same_case(drawn(other)) and same(one, other)


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
    assert drawn(one).same_case(drawn(other)) and not same(one, other)


def test_a_name_that_only_one_episode_knew_still_tells_advice_apart():
    assert same("bread is in the crate", "bread is in the crate", THINGS, THINGS | {"crate"})
    assert not same("bread is in the basket", "bread is in the crate", THINGS, THINGS | {"crate"})


def test_another_subject_or_condition_is_another_case():
    assert not drawn("bread is in drawer 1").same_case(drawn("egg is in drawer 1", goal="heat egg"))
    assert not drawn("bread is in drawer 1", "room with statue").same_case(
        drawn("bread is in drawer 1", "room with cabinet")
    )
