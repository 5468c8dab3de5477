"""The pool: the same answers from worker processes and from its in-process twin."""

import asyncio
from pathlib import Path

import pytest

from envs import registry
from envs.base import Task
from envs.pool import EnvFailure, EnvPool
from envs.toy import ToyEnv

TASK = Task("t", "moody", "train", "unlock", {"colour": "red", "room": "kitchen"})


@pytest.fixture(autouse=True)
def moody(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr(registry, "_targets", dict(registry._targets))
    registry.register("moody", "misbehaving:Moody")
    registry.register("unready", "misbehaving:Unready")
    registry.register("absent", "no_such_module:Env")


async def episode(pool, number):
    task = ToyEnv.tasks("train")[number % 24]
    slot, expert = pool.slot(), ToyEnv.expert(number)
    seen = [await slot.reset(task)]
    while not seen[-1].done:
        seen.append(await slot.step(expert.act(seen[-1], "")[1]))
    slot.release()
    return seen


async def episodes(workers, count):
    async with EnvPool("toy", {}, workers, timeout_s=20) as pool:
        return await asyncio.gather(*(episode(pool, number) for number in range(count)))


def test_sixty_four_concurrent_episodes_are_the_same_in_workers_and_in_process():
    here, there = asyncio.run(episodes(0, 64)), asyncio.run(episodes(3, 64))
    assert here == there
    assert all(seen[-1].won for seen in here)


@pytest.mark.parametrize("workers", [0, 2])
def test_environments_are_reused_never_constructed_per_episode(workers):
    async def run():
        async with EnvPool("moody", {}, workers, timeout_s=20) as pool:
            names = set()
            for _ in range(5):
                slots = [pool.slot() for _ in range(4)]
                await asyncio.gather(*(slot.reset(TASK) for slot in slots))
                names |= {(await slot.step("who")).text for slot in slots}
                for slot in slots:
                    slot.release()
            return names, pool.pids

    names, pids = asyncio.run(run())
    assert len(names) == 4
    assert len({name.split()[0] for name in names}) == max(1, workers) == max(1, len(pids))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("action", "says"),
    [
        ("raise", "KeyError: 'lost page'"),
        ("leave", "SystemExit: 3"),
        ("nothing", "step gave a NoneType instead of an Observation"),
    ],
)
def test_an_environments_error_is_data_and_the_slot_goes_on(workers, action, says):
    async def run():
        async with EnvPool("moody", {}, workers, timeout_s=20) as pool:
            slot = pool.slot()
            await slot.reset(TASK)
            with pytest.raises(EnvFailure) as failure:
                await slot.step(action)
            assert (failure.value.kind, failure.value.message, failure.value.culprit) == ("error", says, True)
            return await slot.reset(TASK)

    assert asyncio.run(run()).text.startswith("You are in the hall.")


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(("name", "says"), [("unready", "no games here"), ("absent", "no_such_module.*Install")])
def test_what_cannot_be_made_fails_every_reset_with_its_reason(workers, name, says):
    async def run():
        async with EnvPool(name, {}, workers, timeout_s=20) as pool:
            for _ in range(2):
                with pytest.raises(EnvFailure, match=says):
                    await pool.slot().reset(TASK)

    asyncio.run(run())


def test_what_cannot_travel_between_processes_is_an_error_of_its_call():
    async def run():
        async with EnvPool("moody", {}, 1, timeout_s=20) as pool:
            slot = pool.slot()
            await slot.reset(TASK)
            with pytest.raises(EnvFailure, match="cannot leave its process"):
                await slot.step("closure")
            with pytest.raises((AttributeError, TypeError)):  # a task that the caller cannot send
                await slot.reset(Task("t", "moody", "train", "unlock", {"f": lambda: 0}))
            return await slot.step("look")

    assert asyncio.run(run()).accepted


def test_workers_import_neither_torch_nor_mh_train():
    async def run():
        async with EnvPool("moody", {}, 1, timeout_s=20) as pool:
            slot = pool.slot()
            await slot.reset(TASK)
            return set((await slot.step("modules")).text.split())

    roots = {module.split(".")[0] for module in asyncio.run(run())}
    assert "envs" in roots
    assert not roots & {"torch", "mh_train", "numpy", "multiprocessing"}


def test_the_event_loop_stays_free_while_workers_work():
    async def run():
        async with EnvPool("moody", {}, 1, timeout_s=20) as pool:
            slot = pool.slot()
            await slot.reset(TASK)
            call = asyncio.create_task(slot.step("sleep 0.4"))
            turns = 0
            while not call.done():
                await asyncio.sleep(0.005)
                turns += 1
            return turns

    assert asyncio.run(run()) > 10


def test_slots_spread_over_the_workers_and_are_released_once():
    async def run():
        async with EnvPool("moody", {}, 3, timeout_s=20) as pool:
            slots = [pool.slot() for _ in range(6)]
            await asyncio.gather(*(slot.reset(TASK) for slot in slots))
            texts = [(await slot.step("who")).text for slot in slots]
            slots[0].release()
            with pytest.raises(ValueError, match="released before"):
                slots[0].release()
            return [text.split()[0] for text in texts]

    pids = asyncio.run(run())
    assert sorted(pids.count(pid) for pid in set(pids)) == [2, 2, 2]
