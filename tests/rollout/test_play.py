"""Groups of episodes: ordered, complete or dropped, the same whatever the scheduling, and never stuck."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from rollout_parts import TASKS, BarrierEngine, Shelf, make_config, make_pool, make_prompts

from envs import registry
from mh_train.agent.reward import episode_numbers
from mh_train.agent.speaker import EngineSpeaker
from mh_train.engine.base import EngineError
from mh_train.rollout.panels import RolloutError
from mh_train.rollout.play import play
from mh_train.rollout.rules import training_rules
from mh_train.rollout.runner import dropout_groups, rollout


@pytest.fixture(autouse=True)
def flaky(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr(registry, "_targets", dict(registry._targets))
    registry.register("flaky", "flaky_envs:Flaky")


def run(config, tasks, engine=None, memory=None, update=3, on_episode=lambda trajectory: None):
    """One rollout that must end within half a minute."""

    async def main():
        speaker = EngineSpeaker(engine)
        async with make_pool(config) as pool:
            call = rollout(config, tasks, pool, speaker, engine, make_prompts(), memory, update, on_episode)
            return await asyncio.wait_for(call, 30)

    engine = engine or BarrierEngine()
    return asyncio.run(main())


def flaky_config(bad, folder="", **changes):
    config = make_config(**changes)
    config.env = replace(config.env, name="flaky", options={"bad": bad, "folder": str(folder)})
    return config


def without_times(trajectories):
    return [replace(trajectory, seconds=0.0) for trajectory in trajectories]


def test_results_are_complete_groups_in_order_whatever_the_order_of_completion():
    heard = []
    result = run(make_config(), TASKS[:5], memory=Shelf(), on_episode=lambda t: heard.append(t.id))
    assert [t.id for t in result.trajectories] == [f"u00003-g{g:03d}-e{e}" for g in range(5) for e in range(3)]
    assert [t.task_id for t in result.trajectories] == [task.id for task in TASKS[:5] for _ in range(3)]
    assert sorted(heard) == [t.id for t in result.trajectories] != heard
    assert result.dropped == [] and result.failures == {}
    assert all(set(t.reward_parts) >= {"outcome", "format", "retrieval"} for t in result.trajectories)


def test_scheduling_changes_no_sample():
    plain = run(make_config(), TASKS[:4], memory=Shelf())
    for changes in ({"rollout__concurrency": 1}, {"rollout__concurrency": 7}, {"env__workers": 2}):
        other = run(make_config(**changes), TASKS[:4], memory=Shelf())
        assert without_times(other.trajectories) == without_times(plain.trajectories)
    assert len({turn.text for t in plain.trajectories for turn in t.turns}) > 10


def test_seed_update_task_and_episode_each_change_the_noise():
    def actions(result):
        return tuple(step.raw_action for t in result.trajectories for step in t.steps)

    one = run(make_config(rollout__group=1), TASKS[:1], memory=Shelf())
    twice = run(make_config(rollout__group=1), [TASKS[0], TASKS[0]], memory=Shelf())
    assert actions(run(make_config(rollout__group=1, seed=6), TASKS[:1], memory=Shelf())) != actions(one)
    assert actions(run(make_config(rollout__group=1), TASKS[:1], memory=Shelf(), update=4)) != actions(one)
    assert without_times(twice.trajectories)[0] == without_times(one.trajectories)[0]
    assert twice.trajectories[1].steps != twice.trajectories[0].steps, "a task drawn twice is sampled twice"


def test_an_engine_that_waits_for_everybody_gets_batches_of_all_live_episodes():
    engine = BarrierEngine()
    result = run(make_config(rollout__concurrency=5), TASKS[:4], engine, Shelf())
    assert sum(map(len, engine.batches)) == sum(len(t.turns) for t in result.trajectories)
    assert engine.told[0] == 5 and engine.told[-1] == 0
    sizes = [len(batch) for batch in engine.batches]
    assert sizes == sorted(sizes, reverse=True), "full until nobody is left to take a free place"
    again = BarrierEngine()
    run(make_config(rollout__concurrency=5, env__workers=2), TASKS[:4], again, Shelf())
    assert again.batches == engine.batches, "who shares a batch does not depend on the timing of workers"


def test_nobody_waits_for_ever_when_environments_fail_in_the_middle(tmp_path):
    bad = {TASKS[0].id: "raise", TASKS[2].id: "die", TASKS[3].id: "raise"}
    for name in (TASKS[0].id, TASKS[2].id):
        (tmp_path / f"{name}.1").touch()
    for number in range(9):
        (tmp_path / f"{TASKS[3].id}.{number}").touch()
    for concurrency in (0, 3):
        config = flaky_config(bad, tmp_path, env__workers=2, rollout__concurrency=concurrency)
        engine = BarrierEngine()
        result = run(config, TASKS[:6], engine, Shelf())
        assert engine.told[-1] == 0 and not engine.waiting
        assert len(result.trajectories) + 3 * len(result.dropped) == 18


def test_a_failed_episode_starts_again_and_samples_the_same(tmp_path):
    (tmp_path / f"{TASKS[1].id}.1").touch()
    failed = run(flaky_config({TASKS[1].id: "raise"}, tmp_path), TASKS[:3], memory=Shelf())
    assert failed.failures == {"error": 1} and failed.dropped == []
    assert failed.metrics["env/failures"] == failed.metrics["env/failures_error"] == 1
    plain = run(flaky_config({}), TASKS[:3], memory=Shelf())
    assert without_times(failed.trajectories) == without_times(plain.trajectories)


def test_after_the_retries_the_group_is_dropped_whole_and_counted(caplog):
    config = flaky_config({TASKS[1].id: "raise"}, rollout__concurrency=1, rollout__retries=2)
    result = run(config, TASKS[:3], memory=Shelf())
    assert [(drop.group, drop.task_id, drop.kind) for drop in result.dropped] == [(1, TASKS[1].id, "error")]
    assert result.dropped[0].message == "RuntimeError: the game broke"
    assert [t.group for t in result.trajectories] == [0, 0, 0, 2, 2, 2]
    assert result.failures == {"error": 3}, "one attempt and two retries; the siblings are not started any more"
    assert result.metrics["env/dropped_groups"] == 1 and result.metrics["env/episodes"] == 6
    assert "u00003-g001-e0" in caplog.text and "the game broke" in caplog.text


@pytest.mark.parametrize("how", ["die", "hang"])
def test_episodes_that_shared_a_worker_with_the_culprit_survive_without_retries(how):
    config = flaky_config({TASKS[1].id: how}, env__workers=1, env__timeout_s=2.0, rollout__retries=0)
    result = run(config, TASKS[:4], memory=Shelf())
    assert [drop.task_id for drop in result.dropped] == [TASKS[1].id]
    assert result.dropped[0].kind == {"die": "died", "hang": "timeout"}[how]
    assert len(result.trajectories) == 9


def test_when_nothing_comes_through_the_first_reason_is_told():
    with pytest.raises(
        RolloutError, match=r"Every group failed; the first one, task train-000: RuntimeError: the game"
    ):
        run(flaky_config({task.id: "raise" for task in TASKS}), TASKS[:2], memory=Shelf())


def test_an_engine_that_fails_for_good_ends_the_rollout_and_leaves_nothing_running():
    class Dead(BarrierEngine):
        async def generate(self, request):
            if len(self.batches) > 3:
                raise EngineError("The backend is gone; restart it.")
            return await super().generate(request)

    async def main():
        config, engine = make_config(), Dead()
        async with make_pool(config) as pool:
            with pytest.raises(EngineError, match="restart it"):
                await rollout(config, TASKS[:4], pool, EngineSpeaker(engine), engine, make_prompts(), Shelf(), 1)
            assert len(asyncio.all_tasks()) == 1
            assert engine.told[-1] == 0
            assert all(place.busy == 0 for place in pool._places), "every slot was given back"

    asyncio.run(main())


def test_metrics_are_means_over_the_episodes():
    result = run(make_config(), TASKS[:4], memory=Shelf())
    numbers = [episode_numbers(t) for t in result.trajectories]
    for name, metric in (("success", "env/success"), ("steps", "env/steps"), ("inadmissible", "env/inadmissible")):
        assert result.metrics[metric] == pytest.approx(sum(n[name] for n in numbers) / 12)
    assert result.metrics["memory/retrievals"] == pytest.approx(
        result.metrics["memory/accepted"] + result.metrics["memory/rejected"] + result.metrics["memory/empty"]
    )
    assert result.metrics["memory/retrievals"] > 0 and result.metrics["env/malformed"] > 0
    assert result.metrics["reward/mean"] == pytest.approx(
        result.metrics["reward/outcome"] + 0.1 * result.metrics["reward/format"]
    )
    assert {name.split("/")[0] for name in result.metrics} == {"env", "memory", "reward", "time"}


def test_dropout_groups_meet_an_empty_bank_and_the_others_the_real_one():
    shelf = Shelf()
    config = make_config(memory__dropout=0.5)
    result = run(config, TASKS[:8], memory=shelf)
    without = dropout_groups(8, 0.5, (config.seed, 3))
    assert len(without) == 4 == result.metrics["memory/empty_bank_groups"]
    for t in result.trajectories:
        outcomes = {retrieval.outcome for retrieval in t.retrievals}
        assert outcomes <= ({"empty"} if t.group in without else {"accepted", "rejected"})
        assert t.extra.get("empty_bank", False) == (t.group in without)
    assert any(t.retrievals for t in result.trajectories if t.group in without)
    assert {query.task_id for query in shelf.asked} <= {TASKS[g].id for g in range(8) if g not in without}


def test_the_share_of_dropout_groups_is_exact_in_the_mean_and_varies_by_update():
    draws = [dropout_groups(8, 0.3, (0, update)) for update in range(400)]
    assert {len(draw) for draw in draws} == {2, 3}
    assert sum(map(len, draws)) / 400 == pytest.approx(2.4, abs=0.1)
    assert {group for draw in draws for group in draw} == set(range(8))
    assert dropout_groups(8, 0.0, (0, 1)) == set() and dropout_groups(8, 1.0, (0, 1)) == set(range(8))


def test_a_run_without_memory_asks_nobody():
    config = make_config()
    config.memory = replace(config.memory, use=type(config.memory.use).none, dropout=0.5)
    result = run(config, TASKS[:3])
    assert not any(t.retrievals for t in result.trajectories)
    assert not any("retrieval" in t.reward_parts for t in result.trajectories)


def test_every_attempt_gets_a_fresh_voice(tmp_path):
    (tmp_path / f"{TASKS[0].id}.1").touch()
    voices = []

    def voice(spec):
        voices.append(spec.id)
        return EngineSpeaker(BarrierEngine(lambda prompt, rng: "<think>wait</think><action>look</action>"))

    async def main():
        config = flaky_config({TASKS[0].id: "raise"}, tmp_path, rollout__group=1)
        async with make_pool(config) as pool:
            return await play(training_rules(config, 3), TASKS[:2], pool, make_prompts(), voice, lambda spec: Shelf())

    assert len(asyncio.run(main()).trajectories) == 2
    assert sorted(voices) == ["u00003-g000-e0", "u00003-g000-e0", "u00003-g001-e0"]
