"""The mini shop: always solvable, worth remembering, and an expert that knows what pages and memories say."""

import random

import pytest

from envs.webshop.env import WebShopEnv
from envs.webshop.expert import WebShopExpert
from envs.webshop.goals import read_goal
from envs.webshop.mini import BRANDS, DEPARTMENTS, QUALITIES, QUALITY_COUNTS, conventions, generate_mini
from envs.webshop.store import open_store

HORIZON = 15


def play(mini, task, guidance="", noise=0.0):
    """(last observation, (observation, action) pairs) of the expert's episode."""
    env, expert, rng = WebShopEnv(**mini), WebShopEnv.expert(0, **mini), random.Random(task.id)
    at, steps = env.reset(task), []
    while not at.done and len(steps) < HORIZON:
        thought, action = expert.act(at, guidance)
        assert 1 <= len(thought.split()) <= 10
        if rng.random() < noise:
            action = rng.choice(at.admissible)
        else:
            assert action in at.admissible or action.startswith("search[")
        steps.append((at.for_prompt(), action))
        at = env.step(action)
    return at, steps


@pytest.mark.parametrize("count", QUALITY_COUNTS)
def test_brands_of_qualities_differ_between_all_departments(count):
    known = conventions(random.Random(4), count)
    assert set(known) == {(department, quality) for department in DEPARTMENTS for quality in QUALITIES[:count]}
    for quality in QUALITIES[:count]:
        assert len({known[department, quality] for department in DEPARTMENTS}) == len(DEPARTMENTS)
    for department in DEPARTMENTS:
        brands = {known[department, quality] for quality in QUALITIES[:count]}
        assert len(brands) == count and brands <= set(BRANDS)
    assert known != conventions(random.Random(5), count)


def test_a_smaller_shop_sells_no_kind_twice_with_one_quality(tmp_path):
    generate_mini(tmp_path, products=60, qualities=6)
    store = open_store(str(tmp_path / "store"))
    titles = [store.product(row).title for row in range(len(store))]
    assert len(set(titles)) == len(titles) == 60
    with pytest.raises(ValueError, match=r"choose one of \(6, 9, 12\)"):
        generate_mini(tmp_path, qualities=7)


def test_every_product_follows_the_conventions_and_no_search_text_tells_the_quality(mini):
    store = open_store(mini["store"])
    known = conventions(random.Random(3))
    assert len(store) == 135
    for row in range(len(store)):
        product = store.product(row)
        brand, department, kind = product.title.lower().split()
        assert known[department, product.attributes[0]] == brand
        assert product.query == kind and product.category == department
        assert product.attributes[0] not in product.search_text()
        assert product.bullets[1] == f"It is {product.attributes[0]}."


def test_the_expert_solves_nearly_all_goals_without_a_memory(mini):
    tasks = WebShopEnv.tasks("test", **mini)[:120]
    ends = [play(mini, task) for task in tasks]
    assert sum(end.won for end, _ in ends) >= 0.95 * len(tasks)
    lengths = {len(steps) for _, steps in ends}
    assert lengths == {7, 11, 13}


def test_what_one_purchase_taught_saves_steps_in_the_next(mini):
    """The memory comes from another kind of the same department."""
    store, tasks = open_store(mini["store"]), WebShopEnv.tasks("test", **mini)
    lessons = {}
    for task in tasks[:150]:
        end, steps = play(mini, task)
        lessons[task.id] = (end.goal, steps, WebShopExpert().distill(end.goal, steps, end.won))
    helped = 0
    for task in tasks[150:250]:
        goal = read_goal(store, "synthetic", task.data["goal"]).instruction
        quality, kind, department = goal.split()[2], goal.split()[3], goal.split()[5]
        for learnt_at, _, (situation, memory) in lessons.values():
            other = learnt_at.split()[3]
            if situation == f"{quality} {department}" and other != kind:
                first = WebShopEnv(**mini).reset(task)
                told = WebShopExpert().reconstruct(first, [(memory, f"'{department.title()} {other}.'")])
                end, steps = play(mini, task, guidance=told)
                assert end.won and len(steps) == 5
                helped += 1
                break
    assert helped > 20


def test_memories_of_other_departments_or_qualities_are_rejected(mini):
    start = WebShopEnv(**mini).reset(WebShopEnv.tasks("test", **mini)[0])
    quality, department = start.goal.split()[2], start.goal.split()[5]
    others = [name for name in DEPARTMENTS if name != department]
    rebuilt = WebShopExpert().reconstruct
    kind = start.goal.split()[3]
    assert rebuilt(start, [(f"{quality} is velora", f"'Velora {others[0].title()} X'")]) == ""
    assert rebuilt(start, [("shiny is velora", f"'Velora {department.title()} X'")]) == ""
    assert rebuilt(start, [(f"{quality} is velora", "")]) == ""
    assert (
        rebuilt(start, [("no sentence", department), (f"{quality} is velora", department)]) == f"search velora {kind}"
    )
    assert WebShopExpert().query(start) == f"{quality} {department}"


def test_what_a_features_page_proved_is_remembered_whatever_the_end(mini):
    """Also about a quality that nobody wanted: the brand has it all the same."""
    known = conventions(random.Random(3))
    for task in WebShopEnv.tasks("test", **mini)[:40]:
        end, steps = play(mini, task)
        for taught in (steps, steps[:4]):
            situation, memory = WebShopExpert().distill(end.goal, taught, False)
            quality, department = situation.split()
            assert memory == f"{quality} is {known[department, quality]}"
    assert WebShopExpert().distill(end.goal, steps[:3], False) is None


def test_an_unproved_purchase_is_remembered_when_it_was_right(mini):
    task = WebShopEnv.tasks("test", **mini)[0]
    end, steps = play(mini, task)
    quality, kind, department = end.goal.split()[2], end.goal.split()[3], end.goal.split()[5]
    brand = conventions(random.Random(3))[department, quality]
    end, steps = play(mini, task, guidance=f"search {brand} {kind}")
    assert WebShopExpert().distill(end.goal, steps, True) == (f"{quality} {department}", f"{quality} is {brand}")
    assert WebShopExpert().distill(end.goal, steps, False) is None
    assert WebShopExpert().distill(end.goal, steps[:-1], True) is None


@pytest.mark.parametrize("noise", [0.15, 0.5])
def test_the_expert_finds_its_way_from_wherever_random_actions_lead(mini, noise):
    for task in WebShopEnv.tasks("test", **mini)[:60]:
        play(mini, task, noise=noise)


def test_the_expert_reads_rich_pages_too(mini):
    rich = {**mini, "observation": "text_rich"}
    assert all(play(rich, task)[0].won for task in WebShopEnv.tasks("test", **mini)[:20])


def test_there_is_no_expert_for_another_catalogue(store):
    assert WebShopEnv.expert(0, store=str(store.path)) is None
    with pytest.raises(ValueError, match="knows the mini shop only"):
        WebShopExpert().query(
            WebShopEnv(store=str(store.path)).reset(WebShopEnv.tasks("test", store=str(store.path))[0])
        )


def test_equal_arguments_give_equal_files_and_another_call_replaces_them(tmp_path):
    first = generate_mini(tmp_path / "a", seed=1, products=30)
    generate_mini(tmp_path / "b", seed=2, products=15)
    assert generate_mini(tmp_path / "b", seed=1, products=30) == first
    assert (first["products"], first["goals"], first["conventions"]) == (30, 360, 60)
    for name in ("items_shuffle.json", "items_ins_v2.json", "store/products.bin", "store/goals_synthetic.npy"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_shop_that_is_there_is_left_alone(tmp_path):
    first = generate_mini(tmp_path, products=15)
    written = (tmp_path / "store" / "manifest.json").stat().st_mtime_ns
    assert generate_mini(tmp_path, products=15) == first
    assert (tmp_path / "store" / "manifest.json").stat().st_mtime_ns == written
    (tmp_path / "store" / "manifest.json").unlink()
    (tmp_path / "mini.json").unlink()
    assert generate_mini(tmp_path, products=15) == first


@pytest.mark.parametrize("products", [0, 14, 301])
def test_a_shop_is_neither_empty_nor_larger_than_its_words(tmp_path, products):
    with pytest.raises(ValueError, match="choose 15 to 300"):
        generate_mini(tmp_path, products=products)
