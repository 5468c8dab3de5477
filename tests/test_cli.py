"""The command ends with a sentence and a code that says whose fault it was: 2 the words, 1 the run, 0 nobody's."""

import errno
import os
import subprocess
import sys

import pytest

from mh_train.cli import _explain, main
from mh_train.config import compose
from mh_train.run.reuse import alone


def test_a_slip_is_refused_before_anything_is_written(tmp_path, capsys):
    assert main(["sft", "experiment=toy", f"root={tmp_path}", "sft.epocs=1"]) == 2
    assert capsys.readouterr().err == "mh-train: sft.epocs: there is no such setting; did you mean epochs?\n"
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_another_process_works_on_is_left_alone(tmp_path):
    words = ["experiment=toy", f"root={tmp_path}"]
    with alone(compose(words)):
        command = [sys.executable, "-m", "mh_train.cli", "data", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"mh-train: Another process works in {tmp_path / 'toy'};")
    assert [path.name for path in (tmp_path / "toy").iterdir()] == [".lock"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/a/model"),
        ValueError("Error while serializing: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_says_what_to_do(error, capsys):
    assert _explain(error, verbose=False) == 1
    assert "Free some space; the same command continues." in capsys.readouterr().err
