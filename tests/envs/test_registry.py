"""Names become classes, lazily, and unknown names get a sentence."""

import os
import subprocess
import sys

import pytest

from envs import registry
from envs.toy import ToyEnv


def test_built_in_names_are_known_without_their_packages():
    assert {"alfworld", "webshop", "toy"} <= set(registry.names())
    assert registry.target("webshop") == "envs.webshop.env:WebShopEnv"


def test_load_gives_the_class():
    assert registry.load("toy") is ToyEnv


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"no environment 'toi'; known are alfworld, .*toy"):
        registry.load("toi")


def test_a_registered_name_loads_and_cannot_be_taken_twice(monkeypatch):
    monkeypatch.setattr(registry, "_targets", dict(registry._targets))
    registry.register("mine", "envs.toy:ToyEnv")
    registry.register("mine", "envs.toy:ToyEnv")
    assert registry.load("mine") is ToyEnv
    with pytest.raises(ValueError, match=r"'mine' is taken by envs\.toy:ToyEnv"):
        registry.register("mine", "envs.toy:Other")
    with pytest.raises(ValueError, match="'module:Class'"):
        registry.register("other", "envs.toy.ToyEnv")


@pytest.mark.parametrize(
    ("target", "kind", "says"),
    [
        ("no_such_package.env:Env", ImportError, "no_such_package.*Install"),
        ("envs.toy:Nobody", ImportError, "has no Nobody"),
        ("envs.toy:COLOURS", TypeError, r"must be a subclass of envs\.base\.TextEnv"),
    ],
)
def test_a_broken_target_says_what_is_wrong(target, kind, says):
    with pytest.raises(kind, match=says):
        registry.load_target(target)


def test_an_installed_package_adds_an_environment(tmp_path):
    info = tmp_path / "other_env-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other_env\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mh_train.envs]\nother = envs.toy:ToyEnv\n")
    code = "from envs import registry; print(registry.load('other'), registry.names())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    told = done.stdout
    assert "ToyEnv" in told
    assert "'other'" in told
