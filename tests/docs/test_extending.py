"""The examples of docs/extending.md do what the page says, as they stand there."""

import importlib
import sys
from pathlib import Path

import pytest
from pages import ROOT, install, write_files

from envs.check import check_env
from mh_train.agent.types import Trajectory
from mh_train.config import compose
from mh_train.config.schema import EngineConfig
from mh_train.engine.factory import make_engine
from mh_train.engine.load import load_model
from mh_train.learn.advantage import compute_advantages

sys.path.append(str(ROOT / "tests" / "engine"))
import engine_contract as contract


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A folder with the page's files, installed: importable, its entry points known."""
    write_files(ROOT / "docs" / "extending.md", tmp_path)
    install(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    return tmp_path


def test_the_environment_keeps_every_rule(project):
    report = check_env("switches", {})
    assert report.ok, str(report)


def test_the_memory_method_is_what_its_file_says(project):
    memory = compose(["experiment=toy", "hydra.searchpath=[file://my_configs]", "memory=careful"]).memory
    assert (memory.hybrid, memory.dedup.write, memory.prune.utility, memory.k) == (True, 0.9, 0.4, 3)


def test_the_engine_keeps_the_contract(project, toy_runs):
    model, tokenizer = load_model(compose(["experiment=toy"]).model, toy_runs / "toy" / "model")
    engine = make_engine(EngineConfig(name="plain_engine:PlainEngine"), model.eval(), tokenizer)
    contract.check_shape(engine)
    contract.check_stats(engine)
    contract.check_logprobs(engine, model, 0.7)


def test_the_estimator_ranks(project):
    config = compose(["experiment=toy", "learn.estimator_function=my_estimators:ranks"]).learn
    group = []
    for number, outcome in enumerate([10.0, 0.0, 0.0]):
        one = Trajectory(str(number), "toy", "train", "task", "type", "goal", 0, number)
        one.reward, one.reward_parts = outcome, {"outcome": outcome}
        group.append(one)
    assert compute_advantages(group, config)[0] == [1.0, -0.5, -0.5]
