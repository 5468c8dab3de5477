"""Kill the bank's owner, fill its disk: nothing that a boundary sealed is lost."""

import errno
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from mh_train.config.schema import EmbedderConfig, MemoryConfig, MilvusConfig
from mh_train.memory.bank import JOURNAL, Bank, add_event
from mh_train.memory.embed import HashingEmbedder
from mh_train.memory.records import MemoryStoreError, Record

CONFIG = MemoryConfig(milvus=MilvusConfig(enabled=False), embedder=EmbedderConfig(name="hashing", dim=8))
WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_memory_faults import CONFIG, add, open_bank
bank = open_bank(Path(sys.argv[1]))
for update in range(100000):
    add(bank, update)
    print(update, bank.digest(), flush=True)
"""


def open_bank(folder) -> Bank:
    return Bank(CONFIG, HashingEmbedder(8), folder)


def read_bank(folder) -> Bank:
    return Bank(CONFIG, HashingEmbedder(8), folder, read_only=True)


def add(bank: Bank, update: int) -> None:
    one = Record(id=f"m{update}", env="toy", task_type="t", content=f"memory {update} " + "word " * 50)
    bank.apply([add_event(one, np.ones(8, np.float32), update, "curate", "test")])
    bank.commit(update)


def test_a_killed_writer_loses_nothing_it_had_sealed(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path), os.path.dirname(__file__)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        sealed = [writer.stdout.readline().split() for _ in range(20)]
        os.kill(writer.pid, signal.SIGKILL)
        sealed += [line.split() for line in writer.stdout if len(line.split()) == 2]
    bank = open_bank(tmp_path)
    assert bank.state.update >= int(sealed[-1][0])
    assert len(bank.records) == bank.state.update + 1
    if bank.state.update == int(sealed[-1][0]):
        assert bank.digest() == sealed[-1][1]


def test_a_full_disk_is_one_sentence_and_costs_nothing(tmp_path, monkeypatch):
    bank = open_bank(tmp_path)
    add(bank, 0)
    before, real = (tmp_path / JOURNAL).read_bytes(), os.write

    room = [30]

    def full(descriptor, data):
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[: room.pop()])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(MemoryStoreError, match=r"cannot be written \(No space left on device\); free space"):
            add(bank, 1)
    assert (tmp_path / JOURNAL).read_bytes() == before
    assert read_bank(tmp_path).digest() != bank.digest()
    bank.commit(1)
    assert read_bank(tmp_path).digest() == bank.digest()
