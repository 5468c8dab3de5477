"""Cold start: what the expert says, rendered as a rollout renders it, without the answer to its own task."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from rollout_parts import TASKS, make_config, make_pool, make_prompts

from envs.toy import ToyEnv
from mh_train.agent.parse import parse_act, parse_reconstruct
from mh_train.config.schema import Trigger, Use
from mh_train.engine.scripted import CharCodec
from mh_train.memory.distill import parse_memories
from mh_train.rollout.coldstart import cold_start
from mh_train.rollout.panels import RolloutError

CODEC = CharCodec()


def make(env_class=ToyEnv, on_episode=lambda trajectory: None, tasks=TASKS, **changes):
    async def main():
        config = make_config(**changes)
        async with make_pool(config) as pool:
            return await cold_start(config, env_class, tasks, pool, make_prompts("compact"), on_episode)

    return asyncio.run(main())


@pytest.fixture(scope="module")
def made():
    return make(sft__trajectories=96, sft__expert_noise=0.15)


def of_kind(made, kind):
    return [row for row in made.rows if row.kind == kind]


def test_the_numbers_asked_for_come_out(made):
    assert len(made.trajectories) == 96
    assert len(of_kind(made, "distill")) == 20
    assert Counter(row.kind for row in made.rows) == {
        kind: made.metrics[f"sft/rows_{kind}"] for kind in ("act", "reconstruct", "distill")
    }
    assert {t.task_id for t in made.trajectories} == {task.id for task in TASKS}


def test_rows_are_the_turns_of_the_episodes_in_order(made):
    turns = iter((t.prompt_ids, t.completion_ids) for episode in made.trajectories for t in episode.turns)
    rows = [(row.prompt_ids, row.completion_ids) for row in made.rows if row.kind != "distill"]
    assert rows, "and only the random actions among the turns are left out (below)"
    assert all(row in turns for row in rows)
    for row in made.rows:
        assert row.prompt_ids == tuple(CODEC.encode(row.messages)), "nothing but the rollout's own rendering"
        assert row.completion_ids == (*CODEC.encode_text(row.completion), 0)


def test_the_protocol_is_spoken_without_a_mistake(made):
    assert all(parse_act(row.completion).well_formed for row in of_kind(made, "act"))
    assert all(parse_reconstruct(row.completion).well_formed for row in of_kind(made, "reconstruct"))
    assert all(parse_memories(row.completion) is not None for row in of_kind(made, "distill"))
    assert all(t.reward_parts["protocol"] == 1.0 for t in made.trajectories)
    assert not any(step.inadmissible or step.malformed for t in made.trajectories for step in t.steps)


def test_memory_is_asked_once_mostly_at_the_start_and_answers_differ(made):
    asked = [t.retrievals for t in made.trajectories if t.memory_mode != "none"]
    assert Counter(map(len, asked)).keys() <= {0, 1}
    retrievals = [retrieval for found in asked for retrieval in found]
    assert len(retrievals) > 0.7 * len(asked)
    steps = Counter(retrieval.step for retrieval in retrievals)
    assert steps[0] > 0.5 * len(retrievals) and len(steps) > 1
    outcomes = Counter(retrieval.outcome for retrieval in retrievals)
    assert outcomes["accepted"] > outcomes["rejected"] > 0 and outcomes["empty"] > 0 and outcomes["replayed"] > 0


def test_no_episode_is_shown_a_record_of_its_own_task(made):
    assert any(r.hits for t in made.trajectories for r in t.retrievals)
    alone = make(tasks=TASKS[:1], sft__trajectories=20)
    assert alone.metrics["sft/records"] == 1
    assert {r.outcome for t in alone.trajectories for r in t.retrievals} == {"empty"}


def test_memory_helps_the_expert(made):
    def steps(modes):
        found = [len(t.steps) for t in made.trajectories if {r.outcome for r in t.retrievals} & modes]
        return sum(found) / len(found)

    assert steps({"accepted", "replayed"}) < steps({"rejected", "empty"})


def test_equal_settings_give_equal_rows_whatever_the_workers():
    here, there = make(), make(env__workers=2)
    assert here.rows == there.rows
    assert make(seed=6).rows != here.rows


def test_noise_is_the_share_of_random_actions_which_are_played_but_not_learnt():
    def share(noise):
        made = make(sft__expert_noise=noise)
        turns = [turn for episode in made.trajectories for turn in episode.turns if "<action>" in turn.text]
        return 1 - sum("<action>" in row.completion for row in made.rows) / len(turns)

    assert share(0.0) == 0.0
    assert share(0.3) == pytest.approx(0.3, abs=0.1)


def test_reject_share_makes_the_expert_reject():
    def outcomes(share):
        made = make(sft__reject_share=share)
        return Counter(r.outcome for t in made.trajectories for r in t.retrievals if t.memory_mode == "reconstruct")

    assert outcomes(0.0)["rejected"] == 0
    assert outcomes(1.0)["accepted"] == 0 and outcomes(1.0)["rejected"] > 5


@pytest.mark.parametrize(
    ("use", "modes"), [("replay", {"replay"}), ("none", {"none"}), ("external", {"reconstruct", "replay", "none"})]
)
def test_other_use_modes_teach_what_they_use(use, modes):
    async def main():
        config = make_config()
        config.memory = replace(config.memory, use=Use(use), trigger=Trigger.off if use == "none" else Trigger.agentic)
        async with make_pool(config) as pool:
            return await cold_start(config, ToyEnv, TASKS, pool, make_prompts())

    assert {t.memory_mode for t in asyncio.run(main()).trajectories} == modes


def test_every_episode_is_heard_of():
    heard = []
    made = make(on_episode=heard.append)
    assert len(heard) == 24 + len(made.trajectories)


def test_an_environment_without_expert_is_refused():
    class Silent(ToyEnv):
        @classmethod
        def expert(cls, seed, **options):
            return None

    with pytest.raises(RolloutError, match=r"toy has no expert to learn from; give sft\.data"):
        make(Silent)
