"""The store of our own catalogue, environments on it, and the mini shop."""

import pytest
from shop_files import build

from envs.base import Task
from envs.webshop.env import WebShopEnv
from envs.webshop.mini import generate_mini


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return build(tmp_path_factory.mktemp("catalogue"))


@pytest.fixture(scope="session")
def mini(tmp_path_factory):
    """The options of an environment on the mini shop."""
    root = tmp_path_factory.mktemp("mini")
    generate_mini(root, seed=3, products=135)
    return {"store": str(root / "store")}


@pytest.fixture
def shop(store):
    """`shop(goal, **options)` -> (environment, first observation) for that goal of the catalogue."""

    def enter(goal=0, **chosen):
        env = WebShopEnv(store=str(store.path), **chosen)
        return env, env.reset(Task("", "webshop", "", "", {"goal": goal}))

    return enter
