"""What goes wrong in workers: death, hanging, a closed pool, a dead parent. The others go on."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envs import process, registry
from envs.base import Task
from envs.pool import EnvFailure, EnvPool

TASK = Task("t", "moody", "train", "unlock", {"colour": "red", "room": "kitchen"})
ENVS = Path(__file__).parents[1] / "envs"


@pytest.fixture(autouse=True)
def moody(monkeypatch):
    monkeypatch.syspath_prepend(str(ENVS))
    monkeypatch.setattr(registry, "_targets", dict(registry._targets))
    registry.register("moody", "misbehaving:Moody")
    registry.register("clinging", "misbehaving:Clinging")


async def started(pool, count):
    slots = [pool.slot() for _ in range(count)]
    await asyncio.gather(*(slot.reset(TASK) for slot in slots))
    return slots


async def outcome(call):
    try:
        return (await call).text
    except EnvFailure as failure:
        return failure


def test_a_worker_killed_in_the_middle_of_a_call_fails_its_own_episodes_only(capfd):
    async def run():
        async with EnvPool("moody", {}, 2, timeout_s=20) as pool:
            slots = await started(pool, 4)
            pids = [int((await slot.step("who")).text.split()[0]) for slot in slots]
            calls = [asyncio.create_task(outcome(slot.step("sleep 0.3"))) for slot in slots]
            await asyncio.sleep(0.1)
            os.kill(pids[0], signal.SIGKILL)
            results = await asyncio.gather(*calls)
            lost = [result for result, pid in zip(results, pids, strict=True) if pid == pids[0]]
            kept = [result for result, pid in zip(results, pids, strict=True) if pid != pids[0]]
            assert all(isinstance(result, str) for result in kept)
            assert [(failure.kind, failure.culprit) for failure in lost] == [("died", True), ("died", False)]
            assert "was killed by SIGKILL" in lost[0].message
            assert (await slots[0].reset(TASK)).admissible  # a new worker took its place
            assert pids[0] not in pool.pids and len(pool.pids) == 2

    asyncio.run(run())
    assert "Traceback" not in capfd.readouterr().err


def test_a_call_past_the_limit_is_a_timeout_and_its_neighbours_are_not_to_blame():
    async def run():
        async with EnvPool("moody", {}, 1, timeout_s=1.5) as pool:
            first, hung, third, idle = await started(pool, 4)
            began = time.perf_counter()
            results = await asyncio.gather(
                outcome(first.step("look")), outcome(hung.step("sleep 60")), outcome(third.step("look"))
            )
            assert time.perf_counter() - began < 10
            assert isinstance(results[0], str)  # answered before the hang: not lost with it
            assert (results[1].kind, results[1].culprit) == ("timeout", True)
            assert "ran past 1.5 s" in results[1].message
            assert (results[2].kind, results[2].culprit) == ("died", False)
            failure = await outcome(idle.step("look"))
            assert (failure.kind, failure.culprit) == ("died", False)
            assert isinstance(await outcome(idle.reset(TASK)), str)

    asyncio.run(run())


def test_the_limit_is_for_the_calls_own_time_not_for_its_turn():
    async def run():
        async with EnvPool("moody", {}, 1, timeout_s=1.5) as pool:
            slots = await started(pool, 6)
            return await asyncio.gather(*(outcome(slot.step("sleep 0.4")) for slot in slots))

    assert all(isinstance(result, str) for result in asyncio.run(run()))


def test_an_error_in_reset_reaches_only_the_caller():
    async def run():
        async with EnvPool("moody", {}, 1, timeout_s=20) as pool:
            bad, good = pool.slot(), pool.slot()
            poisoned = Task("t", "moody", "train", "unlock", {**TASK.data, "on_reset": "raise"})
            return await asyncio.gather(outcome(bad.reset(poisoned)), outcome(good.reset(TASK)))

    failure, text = asyncio.run(run())
    assert (failure.kind, failure.message) == ("error", "KeyError: 'lost page'")
    assert text.startswith("You are in the hall.")


def test_closing_the_pool_fails_what_still_runs_and_leaves_no_process():
    async def run():
        pool = await EnvPool("moody", {}, 2, timeout_s=60).__aenter__()
        slots = await started(pool, 2)
        pids = pool.pids
        calls = [asyncio.create_task(outcome(slot.step("sleep 60"))) for slot in slots]
        await asyncio.sleep(0.05)
        await pool.close()
        return pids, await asyncio.gather(*calls)

    pids, results = asyncio.run(run())
    assert all("closed" in failure.message for failure in results)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("mortal", [True, False])
def test_a_worker_that_will_not_end_is_killed_and_one_that_cannot_be_is_counted(mortal, monkeypatch, caplog):
    monkeypatch.setattr(process, "STOP_LIMIT_S", 0.3)
    if not mortal:  # as on a system that is too busy to take a killed process away
        monkeypatch.setattr(subprocess.Popen, "kill", lambda self: None)

    async def run():
        pool = await EnvPool("clinging", {}, 1, timeout_s=60).__aenter__()
        await started(pool, 1)
        (pid,) = pool.pids
        await pool.close()
        return pid, pool.stragglers

    pid, stragglers = asyncio.run(run())
    assert stragglers == (0 if mortal else 1)
    if mortal:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    else:
        assert f"worker {pid} was killed and is still there" in caplog.text
        os.kill(pid, signal.SIGKILL)


def test_a_cancelled_call_does_not_disturb_the_slot():
    async def run():
        async with EnvPool("moody", {}, 1, timeout_s=20) as pool:
            (slot,) = await started(pool, 1)
            call = asyncio.create_task(slot.step("sleep 0.2"))
            await asyncio.sleep(0.05)
            call.cancel()
            return await slot.reset(TASK)

    assert asyncio.run(run()).text.startswith("You are in the hall.")


PARENT = """
import asyncio, sys
from envs import registry
from envs.base import Task
from envs.pool import EnvPool
registry.register("moody", "misbehaving:Moody")
async def main():
    async with EnvPool("moody", {}, 2, 60) as pool:
        slots = [pool.slot(), pool.slot()]
        for slot in slots:
            await slot.reset(Task("t", "moody", "train", "unlock", {"colour": "red", "room": "kitchen"}))
        print(*pool.pids, flush=True)
        await slots[0].step("sleep 60")
asyncio.run(main())
"""


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent_even_inside_a_call(blow):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ENVS), *sys.path])}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 2
    time.sleep(0.1)
    parent.send_signal(blow)
    parent.communicate(timeout=15)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}/exe").exists() for pid in pids):
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in pids)
