"""Every YAML file of the memory group composes and means what its name says."""

from pathlib import Path

import pytest

from mh_train.cli import main
from mh_train.config import compose, expand_sweep
from mh_train.config.compose import config_dir
from mh_train.config.ranges import lookup
from mh_train.config.schema import Judging, MemoryConfig, Outcome, Use, Writer

NAMES = sorted(path.stem for path in (Path(config_dir()) / "memory").glob("*.yaml"))


def memory(name: str, *more: str) -> MemoryConfig:
    return compose(["env=toy", "model.path=x", f"memory={name}", *more]).memory


@pytest.mark.parametrize("name", NAMES)
def test_a_dry_run_accepts_it(name, capsys):
    assert main(["grpo", "experiment=memharness_alfworld_7b", f"memory={name}", "--dry-run"]) == 0
    assert "memory:" in capsys.readouterr().out


def test_combined_is_judged_by_the_policy_unless_it_is_too_small():
    assert memory("combined").verifier.source is Judging.policy
    assert memory("combined", "model=tiny").verifier.source is Judging.runtime_status


def test_the_named_methods():
    harness, guard, both = memory("memharness"), memory("memguard"), memory("combined")
    assert (harness.k, harness.verifier.source, harness.lifecycle.enabled, harness.use) == (
        3,
        Judging.off,
        False,
        Use.reconstruct,
    )
    assert (guard.k, guard.writer, guard.outcome, guard.budget) == (5, Writer.induce, Outcome.verifier, 384)
    assert both.k == 3 and both.writer is Writer.distill and both.use is Use.reconstruct
    assert both.admission.enabled and both.scoring.enabled and both.lifecycle.enabled and both.prune.every == 20


def test_ablations_switch_one_part_off():
    assert not memory("memguard_no_admission").admission.enabled and memory("memguard_no_admission").lifecycle.enabled
    assert memory("memguard_no_repeat").verifier.views == 1
    assert not memory("memguard_no_governance").lifecycle.enabled and memory("memguard_no_governance").scoring.enabled
    assert not memory("memguard_no_guards").admission.guards
    assert not memory("memguard_label_confidence").admission.use_reward
    assert not memory("append_only").admission.enabled and memory("verifier_only").admission.enabled


@pytest.mark.parametrize(
    "values",
    [
        "memory.verifier.scale=3,5,10",
        "memory.admission.reward=0.6,0.7,0.8",
        "memory.budget=128,256,512,1024",
        "memory.noise=0.0,0.1,0.2,0.3",
        "memory.scoring.positive=[0.4,0.25,0.1,0.1,0.15],[0.6,0.1,0.1,0.1,0.1]",
    ],
)
def test_values_are_swept(values):
    jobs = expand_sweep(["memory=memguard", values])
    assert len(jobs) >= 2
    key = values.partition("=")[0]
    found = [lookup(compose(["env=toy", "model.path=x", *job]), key) for job in (jobs[0], jobs[-1])]
    assert found[0] != found[1]


def test_studies_are_overrides():
    studied = memory(
        "memguard", "memory.verifier.scale=10", "memory.noise=0.3", "memory.budget=1024", "memory.verifier.alpha=0.3"
    )
    assert (studied.verifier.scale, studied.noise, studied.budget, studied.verifier.alpha) == (10, 0.3, 1024, 0.3)
