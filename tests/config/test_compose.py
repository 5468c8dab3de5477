"""A configuration is typed, checked, and fails fast with a sentence that names the key."""

import subprocess
import sys
import time

import pytest

from mh_train.config import ConfigError, compose, expand_sweep, load, to_yaml

TOY = ["env=toy", "model=tiny", "learn.minibatch_turns=8"]


def refused(*overrides: str) -> str:
    with pytest.raises(ConfigError) as error:
        compose([*TOY, *overrides])
    return str(error.value)


def test_an_unknown_key_is_named():
    assert "lerning_rate" in refused("learn.lerning_rate=1")


@pytest.mark.parametrize(
    ("slip", "told"),
    [
        ("learn.updatse=1", "learn.updatse: there is no such setting; did you mean updates?"),
        ("lern.lr=1", "lern: there is no such setting; did you mean learn?"),
        ("memory=reply", "memory=reply is unknown; did you mean replay?"),
        ("toy", "'toy' is no setting: write key=value."),
    ],
)
def test_slips_of_every_day_are_understood(slip, told):
    assert refused(slip) == told


def test_a_wrong_type_is_named():
    assert "learn.lr" in refused("learn.lr=fast")


def test_a_new_option_needs_a_plus_and_the_sentence_says_so():
    assert "'+env.options={name: value}'" in refused("env.options={data: here}")
    assert compose([*TOY, "+env.options={data: here}"]).env.options == {"data": "here"}


def test_an_unknown_group_choice_is_named():
    assert "memory" in refused("memory=elephant")


def test_every_problem_is_told_at_once():
    message = refused("rollout.top_p=0.9", "env.horizon=0")
    assert "rollout.top_p" in message
    assert "env.horizon" in message


def test_a_resolved_file_loads_to_the_same_config(tmp_path):
    config = compose([*TOY, "seed=7", "+env.options.a=1"])
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    assert load(tmp_path / "config.yaml") == config


def test_a_sweep_expands_to_one_job_per_combination():
    jobs = expand_sweep(["seed=0,1", "learn.lr=1e-6,1e-5", "env=toy"])
    assert len(jobs) == 4
    assert ["seed=1", "learn.lr=1e-06", "env=toy"] in jobs


def test_a_typo_fails_on_the_command_line_before_torch_is_imported():
    code = (
        "import sys; from mh_train.cli import main; status = main(['grpo', 'env=toy', 'x=1'])\n"
        "assert 'torch' not in sys.modules; sys.exit(status)"
    )
    started = time.process_time()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "x" in done.stderr
    assert time.process_time() - started < 2


def test_dry_run_prints_the_config_and_what_it_amounts_to():
    done = subprocess.run(
        [sys.executable, "-m", "mh_train.cli", "grpo", *TOY, "--dry-run"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "# episodes per update: 128" in done.stdout
    assert "horizon: 8" in done.stdout
