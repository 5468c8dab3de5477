"""Who is evaluated, and tables from the command line: rows played, rows missing, nothing played twice."""

import csv
import json
from pathlib import Path

import pytest

from mh_train.cli import main
from mh_train.config import ConfigError, compose
from mh_train.run.folder import RunFolder
from mh_train.stages.actors import CHARACTERS_PER_TOKEN, load_actor, source


def words(root: Path, *more: str) -> list[str]:
    """A scripted actor on three tasks of the toy environment: no model, no training."""
    return [
        *("env=toy", "model=tiny", "engine=scripted", "name=base", f"root={root}", "env.horizon=3"),
        *("evaluate.panels=[valid_unseen]", "evaluate.limit=3", "memory.embedder.name=hashing"),
        *("memory.milvus.enabled=false", *more),
    ]


def plain(root: Path, path: str):
    return compose(["env=toy", f"model.path={path}", f"root={root}", "name=plain"])


def test_a_run_that_never_trained_is_evaluated_by_its_model_path(tmp_path, capsys):
    folder = RunFolder(tmp_path / "plain")
    assert source(plain(tmp_path, "owner/name"), folder) == "owner/name"
    assert "owner/name as it is" in capsys.readouterr().out
    folder.checkpoints.mkdir(parents=True)
    with pytest.raises(ConfigError, match="mh-train grpo"):
        source(plain(tmp_path, "owner/name"), folder)


def test_a_trained_policy_goes_first_and_tiny_is_no_checkpoint(tmp_path):
    folder = RunFolder(tmp_path / "plain")
    with pytest.raises(ConfigError, match="no policy"):
        source(plain(tmp_path, "tiny"), folder)
    folder.model.mkdir(parents=True)
    (folder.model / "config.json").write_text("{}")
    assert source(plain(tmp_path, "owner/name"), folder) == str(folder.model)


def test_an_actor_without_a_model_measures_prompts_in_characters(tmp_path):
    config = compose(words(tmp_path))
    assert source(config, RunFolder(tmp_path)) == ""
    policy, digest = load_actor(config, "")
    assert policy.model is None and digest.startswith("scripted:")
    assert policy.prompts.prompt_tokens == CHARACTERS_PER_TOKEN * config.env.prompt_tokens


def test_a_table_is_played_once_and_saved_in_every_format(tmp_path, capsys):
    command = ["eval", "table=source_state", *words(tmp_path)]
    assert main(command) == 0
    tables = tmp_path / "base" / "tables"
    with open(tables / "source_state.csv", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    assert [line[0] for line in lines] == ["own source state", "no source state", "source state of a random record"]
    assert head[1] == "valid_unseen success %" and all(line[1] != "–" for line in lines)
    assert (tables / "source_state.tex").read_text().startswith("% Source state")
    assert len(json.loads((tables / "source_state.json").read_text())["comparisons"]) == 2
    assert (tables / "source_state.md").read_text() in capsys.readouterr().out
    cells = {path: path.stat().st_mtime_ns for path in tables.rglob("cells/*.jsonl")}
    assert main(command) == 0
    assert len(cells) == 3 and cells == {path: path.stat().st_mtime_ns for path in cells}


def test_rows_that_need_other_runs_are_named_with_their_command(tmp_path, capsys):
    assert main(["eval", "table=ablation", *words(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "| MemHarness |" in told and "| RL only (GRPO) | – |" in told
    assert "baseline=grpo name=base-grpo" in told and "there is no cold start" in told
    assert "external reconstructor: memory" in told


def test_a_dry_run_shows_the_rows_and_plays_nothing(tmp_path, capsys):
    assert main(["eval", "table=main", *words(tmp_path), "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "RLOO: mh-train run env=toy" in told and "baseline=rloo" in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("word, why", [("table=tabel", "There is no table tabel"), ("train=maybe", "train=maybe")])
def test_wrong_words_are_refused(tmp_path, capsys, word, why):
    assert main(["eval", "table=ablation", *words(tmp_path), word]) == 2
    assert why in capsys.readouterr().err


def test_a_bank_that_is_not_there_is_refused(tmp_path, capsys):
    assert main(["eval", *words(tmp_path), "mode=frozen_bank"]) == 2
    assert "evaluate.bank=FOLDER is no folder" in capsys.readouterr().err
