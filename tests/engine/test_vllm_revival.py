"""Servers that die: started again with the current weights, requests asked again, a run that gives up with a sentence.

The servers are stand-ins that start in no time; `test_vllm_server.py` does the same to a real one.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from mh_train.engine import vllm_replica
from mh_train.engine.base import EngineError, Request, Sampling
from mh_train.engine.codec import HFCodec
from mh_train.engine.serving import Serving
from mh_train.engine.vllm_server import VllmServerEngine

DEADLY = Request((666, 2), Sampling())
HARMLESS = [Request((number, 2), Sampling()) for number in range(8)]


@pytest.fixture
def fuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """While this file exists, the deadly prompt kills the server that gets it."""
    fuse = tmp_path / "fuse"
    monkeypatch.setenv("STAND_IN_FUSE", str(fuse))
    monkeypatch.setattr(vllm_replica, "SERVE", [sys.executable, str(Path(__file__).with_name("stand_in.py"))])
    return fuse


def test_a_dead_server_is_started_again_with_the_current_weights(
    model: Any, tokenizer: Any, fuse: Path, tmp_path: Path
) -> None:
    async def run() -> None:
        serving = Serving("", 64)
        async with VllmServerEngine(serving, HFCodec(tokenizer), replicas=2, logs=str(tmp_path), start_s=60) as engine:
            await engine.sync(model, 0)
            await engine.sync(model, 1)
            pids = [replica.process.pid for replica in engine.replicas if replica.process]
            fuse.touch()
            answers = await asyncio.gather(*map(engine.generate, [DEADLY, *HARMLESS]))
            assert {answer.token_ids[1] for answer in answers} == {1}
            assert answers[0].token_ids[0] in (11, 12)  # a server that came back has taken the weights once
            assert sum(replica.process.pid != pid for replica, pid in zip(engine.replicas, pids, strict=True)) == 1  # type: ignore[union-attr]
            counted = engine.take_stats().extra
            assert counted["restarts"] == 1 and counted["replayed"] >= 1
            processes = [replica.process for replica in engine.replicas]
        assert all(process is not None and process.poll() is not None for process in processes)

    asyncio.run(asyncio.wait_for(run(), 120))


def test_a_server_that_cannot_start_tells_its_last_words(
    tokenizer: Any, fuse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_replica, "SERVE", [sys.executable, "-c", "print('no such model'); raise SystemExit(3)"])
    engine = VllmServerEngine(Serving("", 64), HFCodec(tokenizer), logs=str(tmp_path), start_s=60)
    with pytest.raises(EngineError, match=r"(?s)ended with status 3.*no such model"):
        asyncio.run(engine.generate(HARMLESS[0]))
