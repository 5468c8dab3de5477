"""The toy: small enough to be read whole, real enough to need memory."""

import pytest

from envs.base import EnvDataError
from envs.toy import PLACES, ToyEnv


def play(task, seed, guidance=""):
    env, expert, steps = ToyEnv(), ToyEnv.expert(seed), []
    seen = env.reset(task)
    while not seen.done and len(steps) < 20:
        _, action = expert.act(seen, guidance)
        steps.append((seen.text, action))
        seen = env.step(action)
    return seen, steps, expert


def test_the_expert_solves_every_task_within_the_horizon_of_its_config():
    for split in ToyEnv.splits:
        for task in ToyEnv.tasks(split):
            for seed in range(3):
                seen, steps, _ = play(task, seed)
                assert seen.won
                assert len(steps) <= 8


def test_guidance_saves_steps():
    tasks = ToyEnv.tasks("train")
    blind = sum(len(play(task, seed)[1]) for task in tasks for seed in range(4))
    told = sum(
        len(play(task, seed, f"Search the {PLACES[task.data['room']]} first.")[1])
        for task in tasks
        for seed in range(4)
    )
    assert told < 0.7 * blind


def test_a_memory_of_one_task_guides_another_of_the_same_colour_only():
    unlock, fetch = ToyEnv.tasks("train")[0], ToyEnv.tasks("valid_seen")[6]
    seen, steps, expert = play(unlock, 1)
    _, memory = expert.distill(seen.goal, steps, seen.won)
    start = ToyEnv().reset(fetch)
    assert ToyEnv.expert(0).reconstruct(start, [(memory, "")]) == "Search the cupboard first."
    other = ToyEnv().reset(ToyEnv.tasks("train")[1])
    assert ToyEnv.expert(0).reconstruct(other, [(memory, "")]) == ""


def test_an_unknown_split_is_refused():
    with pytest.raises(EnvDataError, match="toy has no split 'test'; it has train"):
        ToyEnv.tasks("test")
