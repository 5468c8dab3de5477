"""Every experiment and every sweep in `configs/` composes, is planned, and says what it is."""

from pathlib import Path

import pytest

from mh_train.config import ConfigError, compose, expand_sweep
from mh_train.config.compose import config_dir
from mh_train.config.plan import Machine, make_plan

EXPERIMENTS = sorted(path.stem for path in (Path(config_dir()) / "experiment").glob("*.yaml"))
SWEEPS = sorted(path.stem for path in (Path(config_dir()) / "sweep").glob("*.yaml"))
LARGE = [name for name in EXPERIMENTS if name.endswith(("_7b", "_3b", "_1_5b", "_lora"))]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_composes_under_its_own_name(name: str):
    assert compose([f"experiment={name}"]).name == name


@pytest.mark.parametrize("name", LARGE)
def test_an_experiment_fits_where_it_is_meant_to_run(name: str):
    """LoRA on one GPU of 80 GB, everything else divided over eight."""
    lora = name.endswith("_lora")
    config = compose([f"experiment={name}"])
    plan = make_plan(config, Machine(1, 1 if lora else 8), "ddp" if lora else "fsdp2")
    assert config.model.lora.enabled is lora
    assert plan.peak < 0.9 * plan.machine.memory


@pytest.mark.parametrize("size", ["3b", "1_5b"])
@pytest.mark.parametrize("env", ["alfworld", "webshop"])
def test_a_smaller_policy_changes_nothing_but_the_model(env: str, size: str):
    large, small = (compose([f"experiment=memharness_{env}_{name}"]) for name in ("7b", size))
    small.name, small.model = large.name, large.model
    assert small == large


@pytest.mark.parametrize("name", SWEEPS)
def test_every_job_of_a_sweep_is_another_run(name: str):
    jobs = expand_sweep([f"sweep={name}"])
    assert len(jobs) > 3
    assert compose(jobs[0]) != compose(jobs[-1])


def test_words_beside_a_sweep_are_in_every_job():
    assert all("launcher=slurm" in job for job in expand_sweep(["sweep=uses", "launcher=slurm"]))
    with pytest.raises(ConfigError, match="choose one of"):
        expand_sweep(["sweep=nosuch"])
