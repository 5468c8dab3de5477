"""Goals, their canonical order, and the splits."""

import random

import numpy as np
import pytest
from shop_files import build, item, options, write_files

from envs.base import EnvDataError
from envs.webshop import splits
from envs.webshop.build import build_store
from envs.webshop.goals import NO_LIMIT, read_goal
from envs.webshop.splits import goal_numbers, split_overlap


def texts(store, kind):
    return [read_goal(store, kind, i).instruction for i in range(len(store.goals[kind]))]


def test_a_synthetic_goal_is_a_product_with_one_combination_of_options(store):
    goals = {read_goal(store, "synthetic", i).instruction: read_goal(store, "synthetic", i) for i in range(3)}
    limit = next(goal.limit for goal in goals.values() if goal.row == 0)
    price = f", and price lower than {limit:.2f} dollars" if limit < NO_LIMIT else ""
    assert set(goals) == {
        f"Find me a stool with color: wine | red, and size: big  one{price}",
        f"Find me a stool with color: blue, and size: big  one{price}",
        "Find me a bench",  # nothing above 995 dollars to compare with
    }
    assert goals["Find me a bench"].limit == NO_LIMIT
    assert goals["Find me a bench"].options == {}
    red = next(goal for text, goal in goals.items() if "wine | red" in text)
    assert (red.options, red.attributes) == ({"color": "wine | red", "size": "big  one"}, ["hand made", "weatherproof"])
    assert list(red.options) == ["color", "size"]


def test_a_human_goal_is_an_instruction_that_names_attributes(store):
    found = [read_goal(store, "human", i) for i in range(len(store.goals["human"]))]
    stool = next(goal for goal in found if goal.row == 0)
    assert stool.instruction.startswith("i want a red stool")
    assert "..." not in stool.instruction
    assert (stool.options, stool.attributes) == (["red", "big one"], ["sturdy"])
    assert sorted(goal.row for goal in found) == [0, 3]


def test_limits_lie_above_the_price_and_are_no_goal_too_far(store):
    for i in range(3):
        goal = read_goal(store, "synthetic", i)
        assert goal.limit > store.prices[goal.row]
        assert goal.limit == NO_LIMIT or goal.limit - store.prices[goal.row] <= 40


def test_there_is_no_goal_beyond_the_last(store):
    with pytest.raises(EnvDataError, match=r"There is no synthetic goal 3: .* has 3"):
        read_goal(store, "synthetic", 3)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A store with 2,000 synthetic goals of 200 products."""
    return build_large(tmp_path_factory.mktemp("large"), seed=1)


def build_large(folder, seed):
    shapes = options(a=["1", "2", "3", "4", "5"], b=["x", "y"])
    items = [item(f"C{i:09d}", f"Thing {i}", customization_options=shapes, pricing="$5 to $500") for i in range(200)]
    wanted = {
        entry["asin"]: {"attributes": ["fine"], "instruction": "get it", "instruction_attributes": ["fine"]}
        for entry in items
    }
    return build_store(*write_files(folder, items, wanted, {}), out=folder / "store", seed=seed, nouns="words")


def test_the_order_is_pythons_shuffle_with_seed_233_whatever_the_catalogue_seed(large, tmp_path):
    order = list(range(2000))
    random.Random(233).shuffle(order)
    goals = large.goals["synthetic"]
    assert [(int(g["row"]), int(g["variant"])) for g in goals] == [divmod(i, 10) for i in order]
    other = build_large(tmp_path, seed=2).goals["synthetic"]
    assert np.array_equal(other["row"], goals["row"]) and np.array_equal(other["variant"], goals["variant"])
    assert not np.array_equal(other["limit"], goals["limit"])


def test_canonical_splits_are_the_originals(large):
    assert goal_numbers(large, "synthetic", "test") == list(range(500))
    assert goal_numbers(large, "synthetic", "dev") == list(range(500, 1500))
    assert goal_numbers(large, "synthetic", "train") == list(range(1500, 2000))


def test_disjoint_products_share_no_product_and_lose_no_goal(large):
    found = {split: goal_numbers(large, "synthetic", split, "disjoint_products") for split in splits.SPLITS}
    assert sorted(n for numbers in found.values() for n in numbers) == list(range(2000))
    products = {split: set(large.goals["synthetic"]["row"][numbers].tolist()) for split, numbers in found.items()}
    assert not products["train"] & (products["dev"] | products["test"]) and not products["dev"] & products["test"]
    assert 10 <= len(products["test"]) <= 60 and 10 <= len(products["dev"]) <= 60


def test_the_report_counts_what_splits_share(large):
    rows = large.goals["synthetic"]["row"]
    report = split_overlap(large)
    assert report["test"] == {"goals": 500, "products": len(set(rows[:500]))}
    in_train = [row for row in rows[:500] if row in set(rows[1500:])]
    assert report["test in train"] == {"goals": len(in_train), "products": len(set(in_train))}
    clean = split_overlap(large, rule="disjoint_products")
    assert all(count == {"goals": 0, "products": 0} for pair, count in clean.items() if " in " in pair)


def test_an_empty_split_says_what_to_do(store, tmp_path):
    with pytest.raises(EnvDataError, match=r"split train of .* is empty: the store has 3 .*=disjoint_products"):
        goal_numbers(store, "synthetic", "train")
    with pytest.raises(EnvDataError, match="no split 'valid'"):
        goal_numbers(store, "synthetic", "valid")
    assert split_overlap(store)["train"] == {"goals": 0, "products": 0}
    assert split_overlap(build(tmp_path, limit=2), "human", "disjoint_products")["test in train"]["goals"] == 0


def test_an_instruction_without_attributes_is_refused(tmp_path):
    wanted = {"C000000000": {"attributes": [], "instruction": "get it", "instruction_attributes": []}}
    paths = write_files(tmp_path, [item("C000000000", "Thing")], wanted, {})
    with pytest.raises(EnvDataError, match="C000000000 has an instruction without attributes"):
        build_store(*paths, out=tmp_path / "store", nouns="words")
