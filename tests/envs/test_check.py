"""The checker accepts a good environment and names what a bad one does."""

from pathlib import Path

import pytest

from envs import registry
from envs.base import EnvDataError
from envs.check import RULES, check_env


@pytest.fixture
def broken(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr(registry, "_targets", dict(registry._targets))
    registry.register("careless", "misbehaving:Careless")
    registry.register("unready", "misbehaving:Unready")


def test_the_toy_keeps_every_rule():
    report = check_env("toy", {}, n_tasks=12)
    assert report.ok, str(report)
    assert str(report).count("ok  ") == len(RULES)


def test_every_broken_rule_is_named_with_what_broke_it(broken):
    report = check_env("careless", {})
    assert not report.ok
    text = str(report)
    for words in (
        "the id 'same' appears twice",
        "data that JSON changes",
        "tasks('no such split') raised nothing",
        "admissible is a list, not a tuple",
        "the score 7 is outside [0, 1]",
        "the goal is ['', 'changed goal']",
        "is used again gives another episode",
        "raised RuntimeError: I do not know that",
    ):
        assert words in text, text


def test_an_environment_that_cannot_be_made_is_a_finding_not_a_crash(broken):
    assert "raised FileNotFoundError: no games here" in str(check_env("unready", {}))


def test_missing_data_and_unknown_names_reach_the_caller():
    with pytest.raises(EnvDataError, match="toy has no split"):
        check_env("toy", {}, split="test")
    with pytest.raises(ValueError, match="known are"):
        check_env("toi", {})
