"""The report of a real run: written by evaluation, workable in a browser, made again while a run grows.

The pictures are left in `build/screenshots/toy`.
"""

import os
import shutil
from pathlib import Path

from mh_train.cli import main
from mh_train.stages.watch import stamps

PICTURES = Path(__file__).resolve().parents[2] / "build" / "screenshots" / "toy"


def test_a_run_ends_with_its_report_and_all_of_it_can_be_worked(trained, chromium):
    from browser import walk

    result = walk(chromium, trained / "report.html", PICTURES)
    assert not result.faults, "\n".join(sorted(set(result.faults)))
    assert any(link.startswith("#bank/0/m") for link in result.followed)
    assert any(link.startswith("#episodes/0/u00004") for link in result.followed)


def test_watch_writes_the_report_of_what_is_there(trained, tmp_path):
    run = tmp_path / "toy"
    shutil.copytree(trained, run, ignore=shutil.ignore_patterns("eval", "report.html", "checkpoints", "sft"))
    before = stamps(run)
    assert main(["watch", str(run), "--once"]) == 0
    assert (run / "report.html").stat().st_size > 50_000
    assert stamps(run) == before
    os.utime(run / "metrics.jsonl", (1, 1))
    assert stamps(run) != before


def test_a_folder_that_is_no_run_is_one_sentence(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 1
    assert "is not a run folder" in capsys.readouterr().err
