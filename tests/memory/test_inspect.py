"""What `mh-train bank` shows, moves and corrects."""

import shutil
from dataclasses import replace

import pytest
from memory_parts import EMBEDDER, add, memory_config, open_bank, record, trajectory

from mh_train.config.schema import ScoringConfig
from mh_train.memory.bankfile import problems, read_bank_file
from mh_train.memory.inspect import diff, history, list_records, show, stats, why
from mh_train.memory.journal import Event
from mh_train.memory.records import Descriptor, MemoryStoreError, Signature
from mh_train.memory.snapshot import save_snapshot
from mh_train.memory.transfer import archive, export, import_records, pin, preview, read_export
from mh_train.memory.usage import use

SAME = Signature("procedural_hint", "pick", "toy", "look", ("drawer",), ("bread",))


@pytest.fixture
def bank(tmp_path):
    bank = open_bank(tmp_path / "run" / "bank")
    judged = Descriptor(0.8, 0.9, "verified_success", 0)
    add(
        bank,
        record("bread is in the drawer", id="m1", descriptor=judged, signature=SAME),
        record("egg in the fridge", id="m2"),
    )
    add(bank, record("old news", id="n3", state="archived"), update=1)
    use(bank, [trajectory("a", used=[("m1", "accepted")])], {"a": True}, 2)
    bank.apply([Event("conflict", "m1", 2, "curate", "other advice", {"other": "m2", "loser": "m2"})])
    bank.commit(2)
    return bank


def test_a_bank_is_found_in_a_run_a_bank_folder_and_a_checkpoint(bank, tmp_path):
    save_snapshot(bank, tmp_path / "checkpoint" / "bank")
    (tmp_path / "checkpoint" / "manifest.json").write_text("{}")  # the checkpoint's own
    for path in (tmp_path / "run", tmp_path / "run" / "bank", tmp_path / "checkpoint"):
        assert read_bank_file(path).digest == bank.digest(), path
    with pytest.raises(MemoryStoreError, match="no bank at"):
        read_bank_file(tmp_path / "nowhere")


def test_a_running_bank_is_read_to_its_last_boundary(bank):
    before = bank.digest()
    bank.apply([Event("pin", "m1", 3, "user", "", {"pinned": True})])
    assert read_bank_file(bank.folder).digest == before


def test_lists_are_sorted_and_filtered(bank):
    found = read_bank_file(bank.folder)
    assert [row[0] for row in list_records(found).rows] == ["m1", "m2", "n3"]
    assert [row[0] for row in list_records(found, state="archived").rows] == ["n3"]
    assert [row[0] for row in list_records(found, contains="FRIDGE").rows] == ["m2"]
    assert len(list_records(found, limit=1).rows) == 1 and len(list_records(found, env="other").rows) == 0


def test_show_tells_origin_links_and_timeline(bank):
    rows = show(read_bank_file(bank.folder), "m2").rows
    told = "\n".join(f"{name}: {value}" for name, value in rows)
    assert "conflict: m1 (won) [active] bread is in the drawer" in told
    assert "learnt: t0-0 step 0, task t0, update 0" in told and "update 2: conflict by curate: other advice" in told
    with pytest.raises(MemoryStoreError, match="2 memories"):
        show(read_bank_file(bank.folder), "m")
    with pytest.raises(MemoryStoreError, match="No memory"):
        show(read_bank_file(bank.folder), "zzz")


def test_stats_and_history(bank):
    found = read_bank_file(bank.folder)
    numbers = dict(stats(found).rows)
    assert numbers["digest"] == bank.digest() and numbers["active"] == 2 and numbers["events add"] == 3
    assert [row[1] for row in history(found, "m1").rows] == ["add", "use", "conflict"]
    assert "c_use=1" in history(found, "m1").rows[1][-1]
    assert len(history(found, limit=2).rows) == 2


def test_diff_names_what_changed(bank, tmp_path):
    save_snapshot(bank, tmp_path / "before")
    archive(bank, ["m2"], "wrong")
    add(bank, record("new", id="m9"), update=3)
    rows = diff(read_bank_file(tmp_path / "before"), read_bank_file(bank.folder)).rows
    assert [(what, name) for what, name, _ in rows] == [("changed", "m2"), ("added", "m9")]
    assert "state: active -> archived" in rows[0][2]


def test_why_explains_a_result_term_by_term(bank):
    config = memory_config(scoring=ScoringConfig(enabled=True, min_relevance=0.2), hybrid=True, k=1)
    rows = why(read_bank_file(bank.folder), EMBEDDER, config, "bread drawer", "toy").rows
    assert [(row[1], row[2]) for row in rows] == [("injected", "m1"), ("filtered", "m2")]
    plain = why(read_bank_file(bank.folder), EMBEDDER, memory_config(k=1), "bread drawer", "toy").rows
    assert [(row[1], row[2]) for row in plain] == [("injected", "m1"), ("over the budget or a copy", "m2")]
    assert f"cosine {plain[0][3]:+.3f}" == plain[0][5]


def test_a_sound_bank_has_no_problems_and_a_broken_one_names_them(bank):
    found = read_bank_file(bank.folder)
    assert list(problems(found, budget=2)) == []
    assert list(problems(found, budget=1)) == ["2 records are retrievable, the budget is 1."]
    found.state.records["m1"] = replace(found.state.records["m1"], conflict_links=("n3",), covers=("m2",))
    told = " ".join(problems(found))
    assert "m1 links to n3" in told and "m2 links to m1" in told and "m1 covers m2" in told


def test_an_export_imports_to_the_same_digest(bank, tmp_path):
    assert export(read_bank_file(bank.folder), tmp_path / "all.jsonl") == 3
    other = open_bank(tmp_path / "other")
    planned = preview(other, read_export(tmp_path / "all.jsonl"), memory_config())
    assert import_records(other, planned, "all.jsonl") == 3 and other.digest() == bank.digest()
    again = preview(other, read_export(tmp_path / "all.jsonl"), memory_config())
    assert again.same == ("m1", "m2", "n3") and not again.new
    assert {v.tobytes() for v in other.state.vectors.values()} == {v.tobytes() for v in bank.state.vectors.values()}


def test_an_import_shows_copies_and_conflicts_first(bank):
    copy = record("bread is in the drawer", id="c1", signature=SAME)
    against = record("bread is not in the drawer", id="c2", signature=replace(SAME, action="not look"))
    changed = replace(bank.records["m2"], title="edited")
    planned = preview(bank, [copy, against, changed], memory_config())
    assert [pair[:2] for pair in planned.duplicates] == [("c1", "m1")]
    assert [pair[:2] for pair in planned.conflicts] == [("c2", "m1")]
    assert planned.different == ("m2",) and len(planned.table().rows) == 5
    assert import_records(bank, planned, "x") == 1 and "c1" not in bank.records and bank.records["m2"].title == ""


@pytest.mark.parametrize(
    "line", ["{", '{"id": 3}', '{"id": "x y", "env": "e", "task_type": "t", "content": "c"}', "[1]"]
)
def test_a_broken_export_names_its_line(tmp_path, line):
    (tmp_path / "x.jsonl").write_text('{"format": 1}\n' + line + "\n")
    with pytest.raises(MemoryStoreError, match="Line 2 of"):
        read_export(tmp_path / "x.jsonl")


def test_edits_by_hand_are_journalled(bank, tmp_path):
    archive(bank, ["m2"], "it misled the agent")
    pin(bank, ["m1"], "keep")
    pin(bank, ["n"], "its id begins so")
    with pytest.raises(MemoryStoreError, match="No memory"):
        pin(bank, ["zz"], "")
    found = read_bank_file(bank.folder)
    assert (
        found.state.records["m1"].pinned
        and found.state.records["n3"].pinned
        and found.state.records["m2"].state == "archived"
    )
    assert found.events[-1].actor == "user" and "it misled" in found.state.records["m2"].reason
    shutil.copytree(bank.folder, tmp_path / "copy")
    assert read_bank_file(tmp_path / "copy").digest == found.digest
