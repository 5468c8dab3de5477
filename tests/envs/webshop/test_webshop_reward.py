"""Every branch of the reward, and the two option rules."""

from dataclasses import replace

import pytest

from envs.webshop.catalog import Product
from envs.webshop.fuzzy import similar, token_set_ratio
from envs.webshop.goals import NO_LIMIT, Goal
from envs.webshop.reward import score_purchase

STOOL = Product(
    asin="B1",
    title="Oak Stool",
    category="garden",
    query="stools",
    product_category="Home › Seats › Stools",
    price_tag="$20.0",
    pricing=[20.0],
    description="Stays DRY outdoors.",
    bullets=["Folds flat", "won't wobble"],
    options={"color": ["red", "wine red"], "size": ["9", "9 wide"]},
    attributes=["hand made"],
    instruction="find me a stool",
    instruction_attributes=["hand made"],
    human=[],
    nouns=["oak", "stool"],
)
GOAL = Goal(0, 0, "find me a stool", ["hand made"], {"color": "wine red", "size": "9 wide"}, 30.0)


def score(product=STOOL, price=20.0, options=None, goal=GOAL, target=STOOL, rule="original"):
    chosen = {"color": "wine red", "size": "9 wide"} if options is None else options
    return score_purchase(product, price, chosen, goal, target, rule)


def test_the_wanted_product_with_its_options_earns_one():
    assert score().total == 1.0
    assert score().parts == {
        "r_type": 1.0,
        "query_match": True,
        "category_match": True,
        "title_score": 1.0,
        "r_att": 1.0,
        "w_att": 0.25,
        "r_option": 1.0,
        "w_option": 0.5,
        "r_price": True,
        "w_price": 0.25,
    }


@pytest.mark.parametrize(
    ("nouns", "query", "category", "r_type"),
    [
        (["oak", "stool"], "chairs", "Tools", 1.0),  # title alone
        (["oak"] + ["x"] * 3, "chairs", "Tools", 1.0),
        (["stool"], "stools", "Tools", 1.0),
        (["stool"], "chairs", "Home › Seats", 1.0),  # two steps of the path in common
        (["tin"], "stools", "Home › Seats › Stools", 0.0),  # no noun in common, whatever the query
        ([], "stools", "Home › Seats › Stools", 0.0),
    ],
)
def test_the_type_is_judged_by_query_category_and_title(nouns, query, category, r_type):
    bought = replace(STOOL, nouns=nouns, query=query, product_category=category)
    result = score(bought)
    assert result.parts["r_type"] == r_type
    assert result.total == r_type


def test_weak_titles_without_another_match_cost_half_or_more():
    target = replace(STOOL, nouns=["oak", *(f"n{i}" for i in range(9))])
    stranger = replace(STOOL, nouns=["oak"], query="chairs", product_category="Home › Tools")
    assert score(stranger, target=target).parts["r_type"] == 0.5  # 1 of 10
    target = replace(target, nouns=[*target.nouns, "n10"])
    assert score(stranger, target=target).parts["r_type"] == 0.1  # 1 of 11
    assert score(stranger, target=replace(target, nouns=["oak", "oak", "a", "b"])).parts["title_score"] == 0.25


def test_a_goal_title_without_nouns_counts_as_a_weak_match():
    target = replace(STOOL, nouns=[])
    assert score(target=target).parts["title_score"] == 0.2
    assert score(target=target).parts["r_type"] == 1.0
    stranger = replace(STOOL, query="chairs", product_category="Tools")
    assert score(stranger, target=target).parts["r_type"] == 0.5


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("hand made", True),
        ("made hand", True),  # word order
        ("handmade", True),  # nearly so
        ("oak", True),  # in the title
        ("wobble", True),  # in a bullet
        ("flat won't", True),  # bullets are joined with a blank
        ("dry", True),  # in the description
        ("Oak", False),  # texts are lower-cased, the wanted attribute is not
        ("waterproof", False),
    ],
)
def test_an_attribute_is_looked_for_in_list_title_bullets_and_description(wanted, found):
    goal = replace(GOAL, attributes=[wanted, "hand made"])
    result = score(goal=goal)
    assert result.parts["r_att"] == (1.0 if found else 0.5)
    assert result.total == pytest.approx((4 + found) / 5)


@pytest.mark.parametrize(("price", "limit", "fits"), [(30.0, 30.0, True), (30.01, 30.0, False), (9e5, NO_LIMIT, True)])
def test_the_price_may_reach_the_limit(price, limit, fits):
    result = score(price=price, goal=replace(GOAL, limit=limit))
    assert result.parts["r_price"] == fits
    assert result.total == (1.0 if fits else 0.75)


@pytest.mark.parametrize(
    ("chosen", "original", "strict"),
    [
        ({"color": "wine red", "size": "9 wide"}, 2, 2),
        ({"color": "red", "size": "9"}, 2, 0),  # part of the wanted value is enough for the original
        ({"size": "wine red"}, 1, 0),  # and under any name
        ({"color": "blue"}, 0, 0),
        ({}, 0, 0),
    ],
)
def test_option_rules(chosen, original, strict):
    assert score(options=chosen).parts["r_option"] == original / 2
    assert score(options=chosen, rule="strict").parts["r_option"] == strict / 2


def test_the_originals_color_names_break_an_exact_purchase_and_strict_repairs_it():
    goal = replace(GOAL, options={"color": "titanium"})
    chosen = {"color": "titanium"}  # "tan" is in it, but no color of the pair as a whole
    assert score(options=chosen, goal=goal).parts["r_option"] == 0.0
    assert score(options=chosen, goal=goal, rule="strict").total == 1.0
    assert score(options={"c": "navy/red"}, goal=replace(GOAL, options={"color": "navy"})).parts["r_option"] == 1.0


def test_human_goals_want_values_without_names():
    goal = replace(GOAL, options=["red", "9 Wide"])
    assert score(options={"a": "wine red", "b": "9 wide"}, goal=goal).parts["r_option"] == 1.0
    assert score(options={"a": "wine red", "b": "9 wide"}, goal=goal, rule="strict").parts["r_option"] == 0.5
    none = score(options={}, goal=replace(GOAL, options=[]))
    assert "r_option" not in none.parts and none.total == 1.0


@pytest.mark.parametrize(
    ("a", "b", "ratio"),
    [
        ("big red", "red big big", 100),
        ("red", "wine red", 100),
        ("('size', '9 wide')", "9", 100),
        ("x-small", "small", 100),
        ("small", "smell", 80),
        ("café", "caf", 100),  # letters of Latin-1 are dropped
        ("★", "★", 0),  # no word at all
        ("", "red", 0),
        ("portable", "durable", 67),
    ],
)
def test_fuzzy_scores(a, b, ratio):
    assert token_set_ratio(a, b) == ratio
    assert token_set_ratio(b, a) == ratio
    assert similar(a, b) == (ratio > 85)
