"""Admission states and label noise."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_parts import record

from mh_train.config.schema import AdmissionConfig
from mh_train.memory.admission import admit, corrupt, quality, with_verdict
from mh_train.memory.records import LABELS, Descriptor
from mh_train.memory.verifier import Verdict

ON = AdmissionConfig(enabled=True)


def judged(r: float, c: float, label: str, **values):
    return replace(record("advice", state="provisional", **values), descriptor=Descriptor(r, c, label, 0))


@pytest.mark.parametrize(
    ("r", "c", "label", "state"),
    [
        (0.70, 0.60, "verified_success", "active"),
        (0.70, 0.60, "uncertain", "active"),
        (0.69, 0.60, "verified_success", "provisional"),
        (0.70, 0.59, "verified_success", "provisional"),
        (0.45, 1.0, "uncertain", "provisional"),
        (0.44, 1.0, "uncertain", None),
        (0.99, 1.0, "verified_fail", None),
    ],
)
def test_positive_memories(r, c, label, state):
    assert admit(judged(r, c, label), ON)[0] == state


@pytest.mark.parametrize(
    ("c", "label", "guard", "state"),
    [
        (0.60, "verified_fail", "check it", "active"),
        (0.59, "verified_fail", "check it", "provisional"),
        (0.90, "uncertain", "check it", "provisional"),
        (0.90, "verified_fail", "", None),
    ],
)
def test_failure_memories_go_to_the_guard_pool(c, label, guard, state):
    assert admit(judged(0.1, c, label, type="failure_avoidance", guard_condition=guard), ON)[0] == state


def test_switches():
    bad, guard = (
        judged(0.1, 0.1, "verified_fail"),
        judged(0.1, 0.9, "verified_fail", type="failure_avoidance", guard_condition="g"),
    )
    assert admit(bad, AdmissionConfig(enabled=False))[0] == "active"
    assert admit(guard, AdmissionConfig(enabled=True, guards=False))[0] is None
    assert admit(guard, AdmissionConfig(enabled=False, guards=False))[0] is None
    label_only = AdmissionConfig(enabled=True, use_reward=False)
    assert admit(judged(0.2, 0.6, "verified_success"), label_only)[0] == "active"
    assert admit(judged(0.9, 0.9, "uncertain"), label_only)[0] == "provisional"
    assert admit(replace(bad, descriptor=None), ON)[0] == "provisional"


def test_reasons_name_the_measurements():
    assert admit(judged(0.7, 0.6, "verified_success"), ON)[1] == "admitted (R 0.70, c 0.60, verified_success)"


def test_quality_of_hints_and_guards():
    d = Descriptor(0.8, 0.6, "uncertain", 0)
    assert (quality(False, d, True), quality(False, d, False), quality(True, d, True)) == (0.8, 0.5, 0.6)
    checked = with_verdict(record("advice"), Verdict(d, 0.0), "closed", ON)
    assert (checked.descriptor, checked.source_status, checked.quality) == (d, "closed", 0.8)


VERDICTS = [
    Verdict(Descriptor(0.9, 0.9, "verified_success", 0), 0),
    Verdict(Descriptor(0.1, 0.9, "verified_fail", 0), 0),
]


def test_noise_corrupts_its_share_and_is_seeded():
    many = {str(i): VERDICTS[i % 2] for i in range(1000)}
    noisy = corrupt(many, 0.3, ON, seed=0, update=0)
    assert 250 < sum(noisy[name] != many[name] for name in many) < 350
    assert corrupt(many, 0.3, ON, seed=0, update=0) == noisy != corrupt(many, 0.3, ON, seed=1, update=0)
    assert corrupt(many, 0.0, ON, seed=0, update=0) == many


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(LABELS), st.integers(0, 50))
def test_a_corrupted_descriptor_fits_its_new_label(r, c, label, name):
    (noisy,) = corrupt({str(name): Verdict(Descriptor(r, c, label, 0), 0)}, 1.0, ON, 0, 0).values()
    d = noisy.descriptor
    assert d.label != label and 0 <= d.reward <= 1 and 0 <= d.confidence <= 1
    state = admit(judged(d.reward, d.confidence, d.label), ON)[0]
    assert state == {"verified_success": "active", "uncertain": "provisional", "verified_fail": None}[d.label]
