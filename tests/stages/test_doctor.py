"""The doctor tries everything that a run needs, says what fixes what is missing, and tells no secret."""

from pathlib import Path

from mh_train.cli import main
from mh_train.config import compose
from mh_train.run.folder import RunFolder


def test_everything_is_tried_and_what_is_missing_has_its_fix(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "sesame")
    settings = [f"root={tmp_path}", f"data.root={tmp_path / 'nothing'}", "memory.milvus.token=sesame"]
    RunFolder.open(compose(["experiment=toy", *settings]))
    assert main(["doctor", str(tmp_path / "toy")]) == 1
    told = capsys.readouterr().out
    for expected in (
        "package   torch",
        "torch runs on",
        "this folder can be written",
        "transformers was imported in",
        "Milvus Lite answers after",
        "port 19530 (a Milvus server) is",
        "the first token of a new tiny policy came after",
        "MISSING   the data of run toy: missing: mh-train data name=toy",
    ):
        assert expected in told
    for private in ("sesame", str(tmp_path), str(Path.home())):
        assert private not in told
