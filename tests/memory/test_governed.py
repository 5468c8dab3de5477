"""The whole governed update: verify, word, admit, consolidate; every switch of it."""

import asyncio
import json
from dataclasses import replace

import pytest
from memory_parts import PlainPrompts, entry, open_bank, read_bank, trajectory

from mh_train.agent.speaker import EngineSpeaker
from mh_train.config.schema import (
    AdmissionConfig,
    DistillConfig,
    Judging,
    LifecycleConfig,
    Outcome,
    VerifierConfig,
    Writer,
)
from mh_train.engine.scripted import ScriptedEngine
from mh_train.memory.bank import JOURNAL
from mh_train.memory.bankfile import read_bank_file
from mh_train.memory.curate import curate
from mh_train.memory.inspect import history, show
from mh_train.memory.journal import Journal
from mh_train.memory.judge_prompts import CRITERIA
from mh_train.memory.records import MemoryStoreError

GOVERNED = {
    "verifier": VerifierConfig(source=Judging.policy),
    "admission": AdmissionConfig(enabled=True),
    "lifecycle": LifecycleConfig(enabled=True),
    "distill": DistillConfig(fraction=1.0),
}
HINT = {
    "type": "procedural_hint",
    "title": "Search",
    "content": "Look inside closed places before leaving.",
    "applicability": "something is missing",
    "risk": "low",
    "guard_condition": "NONE",
    "reject_reason": "NONE",
}
WARNING = {**HINT, "type": "failure_avoidance", "title": "Loops", "content": "Check that you do not repeat a search."}


def policy(prompt: str, rng) -> str:
    """Judges by the last output, then words one good and one unbacked memory."""
    good = "bread taken" in prompt
    span = "bread taken" if good else "nothing found"
    if "You judge" in prompt:
        score = 5 if good else 1
        entries = {n: {"score": score, "rationale": "r", "evidence_span": span} for n in CRITERIA}
        label = "verified_success" if good else "verified_fail"
        return json.dumps(
            {"criteria": entries, "label": label, "failure_guard": "NONE" if good else "before searching twice"}
        )
    if "You turn" in prompt:
        kept = {
            **(HINT if good else WARNING),
            "evidence_span": span,
            "guard_condition": "NONE" if good else "searching twice",
        }
        return json.dumps({"records": [kept, {**HINT, "evidence_span": "never said"}]})
    return entry("a room", ["look up", "wash lettuce", "light lamps", "be quick"][ord(prompt)])


def episodes(number=4, hidden=True):
    """Half succeed visibly; `hidden` is what the environment says, for all of them."""
    ends = ["bread taken", "nothing found"]
    return [trajectory(f"e{i}", won=hidden, final_observation=ends[i % 2], truncated=i % 2 == 1) for i in range(number)]


def update(bank, trajectories, number=0, script=policy):
    engine = ScriptedEngine(script)
    return asyncio.run(
        curate(bank, trajectories, EngineSpeaker(engine), engine, PlainPrompts(), bank.config, seed=0, update=number)
    )


def test_induction_admits_verified_memories_and_rejects_unbacked_ones(tmp_path):
    bank = open_bank(tmp_path, writer=Writer.induce, **GOVERNED)
    metrics = update(bank, episodes())
    hints = [r for r in bank.view().records if r.type == "procedural_hint"]
    guards = [r for r in bank.view().records if r.type == "failure_avoidance"]
    assert len(hints) == len(guards) == 1, "two of each were induced, equal ones merge"
    assert hints[0].descriptor.label == "verified_success" and hints[0].source_status == "closed"
    assert guards[0].guard_condition == "searching twice" and guards[0].source_status == "step_limit"
    assert {p.trajectory for p in hints[0].provenance} == {"e0", "e2"}
    assert metrics["memory/candidates"] == 8 and metrics["memory/not_admitted"] == 4 and metrics["memory/merged"] == 2
    assert metrics["memory/archived_rate"] == 0 and metrics["memory/merged_rate"] == 0.25
    assert metrics["memory/rejected_rate"] == 0.5 and metrics["memory/label_success"] == 0.5
    assert metrics["memory/guards"] == 1 and metrics["memory/share_hints"] == 0.5
    journal = Journal(tmp_path / JOURNAL, {"embedder": bank.embedder.fingerprint.to_json()}, read_only=True)
    reasons = [e.reason for _, block in journal.blocks for e in block if e.kind == "reject"]
    assert reasons == ["its evidence span does not occur in the episode"] * 4
    assert read_bank(tmp_path).digest() == bank.digest()


def test_every_view_of_the_verifier_can_be_read_from_the_journal(tmp_path):
    def torn(prompt, rng):
        """Unsure of the whole; certain where it looks for risks."""
        if "You judge" not in prompt:
            return policy(prompt, rng)
        scores, label = ((4, 4, 1, 2), "uncertain") if "View risk" not in prompt else ((5, 5, 5, 5), "verified_success")
        entries = {n: {"score": s, "evidence_span": "bread"} for n, s in zip(CRITERIA, scores, strict=True)}
        return json.dumps({"criteria": entries, "label": label, "failure_guard": "NONE"})

    bank = open_bank(tmp_path, writer=Writer.induce, **GOVERNED)
    seen = episodes(1)
    update(bank, seen, script=torn)
    found = read_bank_file(tmp_path)
    assert found.digest == bank.digest()
    (name,) = bank.records
    (told,) = [e for e in found.events if e.kind == "verify"]
    assert told.id == name and [view["view"] for view in told.data["views"]] == ["full", "evidence", "risk"]
    assert told.data["views"][0]["scores"]["task_completion"] == [0.75, 0.0]
    assert seen[0].extra["verdict"]["labels"] == ["uncertain", "uncertain", "verified_success"]
    lines = history(found, name).rows[-1][-1].splitlines()
    assert lines[1].startswith("evidence: uncertain; evidence_consistency 0.75 ± 0.00, execution_validity 0.00")
    assert [v for f, v in show(found, name).rows if f.startswith("view of")] == lines
    assert [e.data["views"] for e in found.events if e.kind == "reject"] == [told.data["views"]]


def test_distilled_memories_get_the_verdict_and_failures_become_guards(tmp_path):
    bank = open_bank(tmp_path, **GOVERNED)
    update(bank, [replace(t, steps=t.steps * (i + 1)) for i, t in enumerate(episodes())])
    types = sorted((r.type, r.descriptor.label, r.state) for r in bank.records.values())
    assert (
        types
        == [("failure_avoidance", "verified_fail", "active")] * 2
        + [("procedural_hint", "verified_success", "active")] * 2
    )


def test_hidden_outcomes_change_nothing_when_the_verifier_is_the_judge(tmp_path):
    journals = []
    for hidden in (True, False):
        bank = open_bank(tmp_path / str(hidden), writer=Writer.induce, outcome=Outcome.verifier, **GOVERNED)
        update(bank, episodes(hidden=hidden))
        used = sorted(bank.records)[0]
        update(
            bank, [trajectory("u", won=hidden, used=[(used, "accepted")], final_observation="bread taken")], number=1
        )
        journals.append((bank.folder / JOURNAL).read_bytes())
    assert journals[0] == journals[1]
    assert bank.records[used].usage.c_succ == 1


def test_no_model_is_needed_to_govern_by_status(tmp_path):
    settings = {**GOVERNED, "verifier": VerifierConfig(source=Judging.runtime_status)}
    bank = open_bank(tmp_path, **settings)
    metrics = update(bank, episodes())
    assert metrics["memory/label_success"] == metrics["memory/label_fail"] == 0.5
    with pytest.raises(MemoryStoreError, match="needs a verifier"):
        update(open_bank(tmp_path / "o", outcome=Outcome.verifier), episodes())
    with pytest.raises(MemoryStoreError, match="writer=induce"):
        update(open_bank(tmp_path / "i", writer=Writer.induce, **settings), episodes())


def test_label_noise_lets_bad_memories_in_and_keeps_good_ones_out(tmp_path):
    clean, noisy = (open_bank(tmp_path / str(n), noise=n, writer=Writer.induce, **GOVERNED) for n in (0.0, 1.0))
    update(clean, episodes(40))
    update(noisy, episodes(40))
    assert all(r.descriptor.label != "verified_fail" for r in clean.view().records if r.type == "procedural_hint")
    assert noisy.digest() != clean.digest()
    flipped = [r for r in noisy.records.values() if r.type == "procedural_hint"]
    assert flipped and not any(r.retrievable for r in flipped)


def test_an_unreadable_verifier_leaves_memories_provisional(tmp_path):
    def mumbling(prompt, rng):
        return "hmm" if "You judge" in prompt else policy(prompt, rng)

    bank = open_bank(tmp_path, **GOVERNED)
    metrics = update(bank, [replace(t, steps=t.steps * (i + 1)) for i, t in enumerate(episodes())], script=mumbling)
    assert metrics["memory/verifier_malformed"] == metrics["memory/verifier_unread_views"] == 4
    assert metrics["memory/label_uncertain"] == metrics["memory/uncertain_rate"] == 1
    assert {r.state for r in bank.records.values()} == {"provisional"} and len(bank.view()) == 0
