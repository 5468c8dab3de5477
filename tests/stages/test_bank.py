"""`mh-train bank`: every command on a run folder, as a person types it."""

from pathlib import Path

import pytest

from mh_train.cli import main
from mh_train.config import compose
from mh_train.memory.bank import Bank, add_event
from mh_train.memory.bankfile import read_bank_file
from mh_train.memory.embed import make_embedder
from mh_train.memory.records import Provenance, Record
from mh_train.run.folder import RunFolder

MEMORIES = {"m1": "bread is in the drawer", "m2": "[red]eggs[/red] are cold", "k3": "look under the table"}


def run_with(root: Path, name: str, memories: dict[str, str]) -> Path:
    config = compose(["experiment=toy", f"root={root}", f"name={name}"])
    folder = RunFolder.open(config)
    embedder = make_embedder(config.memory.embedder)
    bank = Bank(config.memory, embedder, folder.bank, name)
    records = [
        Record(i, "toy", "t", text, provenance=(Provenance(name, 3, "t0", "e0", 0),)) for i, text in memories.items()
    ]
    vectors = embedder.encode([record.key_text() for record in records])
    bank.apply([add_event(r, v, 3, "curate", "test") for r, v in zip(records, vectors, strict=True)])
    bank.commit(3)
    bank.close()
    return folder.path


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def run(tmp_path) -> Path:
    return run_with(tmp_path, "one", MEMORIES)


def said(capsys, *words: object) -> str:
    assert main(["bank", *map(str, words)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_memories_are_listed_shown_counted_and_explained(run, capsys):
    listed = said(capsys, "list", run)
    assert "3 of 3 memories in" in listed and "[red]eggs[/red]" in listed, "text, not markup"
    assert "m1" not in said(capsys, "list", run, "--contains", "table")
    assert "update 3" in said(capsys, "show", run, "m2") and "digest" in said(capsys, "stats", run)
    assert "add" in said(capsys, "history", run, "k3")
    assert "injected" in said(capsys, "why", run, "bread drawer")
    assert "3 memories, nothing wrong" in said(capsys, "verify", run)


def test_an_export_is_previewed_then_imported_to_the_same_digest(run, tmp_path, capsys):
    other = run_with(tmp_path, "two", {})
    said(capsys, "export", run, tmp_path / "all.jsonl")
    assert "Nothing was changed" in said(capsys, "import", other, tmp_path / "all.jsonl")
    assert len(read_bank_file(other).state.records) == 0
    assert "3 memories imported" in said(capsys, "import", other, tmp_path / "all.jsonl", "--yes")
    assert read_bank_file(other).digest == read_bank_file(run).digest
    assert "exists" in said(capsys, "import", other, tmp_path / "all.jsonl")


def test_edits_leave_their_reason_and_differences_show(run, tmp_path, capsys):
    before = run_with(tmp_path, "same", MEMORIES)
    said(capsys, "archive", run, "m2", "--reason", "it misled")
    said(capsys, "pin", run, "m1")
    bank = read_bank_file(run)
    assert bank.state.records["m2"].state == "archived" and bank.state.records["m2"].reason == "it misled"
    assert bank.state.records["m1"].pinned
    assert "state: active -> archived" in said(capsys, "diff", before, run)
    said(capsys, "unpin", run, "m1")
    assert not read_bank_file(run).state.records["m1"].pinned
    assert main(["bank", "archive", str(run), "nobody"]) == 1
    assert "No memory in" in capsys.readouterr().err


def test_a_folder_without_a_bank_is_one_sentence(tmp_path, capsys):
    assert main(["bank", "list", str(tmp_path)]) == 1
    assert "There is no bank at" in capsys.readouterr().err
