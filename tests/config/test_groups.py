"""Every file of the mode and baseline groups composes over an experiment and changes what its name says."""

from pathlib import Path

import pytest

from mh_train.config import ConfigError, compose
from mh_train.config.compose import config_dir
from mh_train.config.schema import Estimator, Manager, Use
from mh_train.evaluate.modes import MODES

GIVEN = {
    "frozen_bank": ["evaluate.bank=FOLDER"],
    "other_bank": ["evaluate.bank=FOLDER", "evaluate.bank_env=webshop"],
    "external": ["+memory.reconstructor.engine.options={url: http://localhost:1/v1, model: m}"],
    "api": ["engine.options.model=m"],
}


def names(group: str) -> list[str]:
    return sorted(path.stem for path in (Path(config_dir()) / group).glob("*.yaml"))


@pytest.mark.parametrize("name", names("mode"))
def test_a_mode_wins_over_the_experiment(name):
    config = compose(["experiment=quickstart", f"mode={name}", *GIVEN.get(name, [])])
    assert set(config.evaluate.modes) <= set(MODES)
    if name in MODES:
        assert name in config.evaluate.modes
    assert (config.engine.name == "api") == (name == "api")
    assert (config.prompt.preset, config.env.history)[0] == ("release" if name == "release" else "compact")


@pytest.mark.parametrize("name", names("baseline"))
def test_a_baseline_wins_over_the_experiment(name):
    config = compose(["experiment=quickstart", f"baseline={name}"])
    without = ("grpo", "rloo", "gigpo", "reinforce_pp")
    assert config.memory.use is (Use.none if name in without else Use.replay)
    estimator = name if name in without else "grpo"
    assert config.learn.estimator is Estimator(estimator)
    assert (config.memory.manager is Manager.mem0) == (name == "mem0_grpo")


def test_reflections_cannot_be_both_wanted_and_hidden():
    with pytest.raises(ConfigError, match="only_same_task"):
        compose(["experiment=quickstart", "memory=reflexion", "memory.exclude_same_task=true"])
    assert compose(
        ["experiment=quickstart", "memory=reflexion", "memory.exclude_same_task=false"]
    ).memory.only_same_task
    with pytest.raises(ConfigError, match=r"memory\.distill\.only"):
        compose(["experiment=quickstart", "memory.distill.only=wins"])
