"""What a message tells to type installs the extra here: with the pins in a clone, by its requirements elsewhere."""

from pathlib import Path

from mh_train import extras


def test_a_clone_installs_itself_with_its_pins():
    assert extras.install("alfworld") == "pip install -e '.[alfworld]' -c constraints/cpu.txt"
    assert extras.install("vllm") == "pip install -e '.[vllm]' -c constraints/cuda.txt"


def test_a_wheel_installs_what_the_extra_consists_of(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(extras, "CLONE", tmp_path)
    told = extras.install("alfworld")
    assert told.startswith("pip install 'alfworld==0.4.2' 'textworld") and "mh_train" not in told
