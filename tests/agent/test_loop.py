"""The episode loop does what SPEC 1 says, turn by turn."""

import asyncio
from dataclasses import replace

import pytest

from mh_train.agent.loop import run_episode
from mh_train.agent.speaker import EngineSpeaker, TurnRequest
from mh_train.engine.base import Completion, Engine, Sampling, noise_key

LOOK = "<think>see</think><action>look</action>"
WIN = "<think>cool it</think><action>Go to  fridge 1</action>"
ASK = "<think>unsure</think><retrieve_memory>where to  cool</retrieve_memory>"
PRINCIPLE = "Cool it in the fridge 1."


@pytest.fixture
def play(kitchen, make_prompts, make_spec, script, shelf, hits):
    """Play one episode with scripted lines; gives (trajectory, speaker, memory)."""

    def run(lines, found=hits, **changes):
        speaker, memory = script(lines), shelf(found)
        spec = make_spec(**{"lowercase_actions": True, **changes})
        return asyncio.run(run_episode(spec, kitchen, speaker, make_prompts("full"), memory)), speaker, memory

    return run


def kinds(trajectory):
    return [turn.kind for turn in trajectory.turns]


def test_ask_rewrite_act(play, kitchen, hits):
    trajectory, speaker, memory = play([ASK, PRINCIPLE, WIN])
    assert kinds(trajectory) == ["act", "reconstruct", "act"]
    assert trajectory.won and trajectory.score == 1.0 and not trajectory.truncated
    assert [(r.query, r.outcome, r.guidance, r.hits) for r in trajectory.retrievals] == [
        ("where to cool", "accepted", PRINCIPLE, hits)
    ]
    assert [(s.action, s.raw_action, s.guidance) for s in trajectory.steps] == [
        ("go to fridge 1", "Go to  fridge 1", PRINCIPLE)
    ]
    assert kitchen.heard == ["go to fridge 1"] and len(memory.queries) == 1
    assert [turn.offer_memory for turn in speaker.asked] == [True, False, False]
    assert [turn.guidance for turn in speaker.asked] == ["", "", PRINCIPLE]
    assert PRINCIPLE in speaker.asked[2].messages[-1]["content"]
    assert all(turn.well_formed and turn.trainable for turn in trajectory.turns)


def test_all_hits_reach_the_reconstruct_prompt(play, hits):
    _, speaker, _ = play([ASK, PRINCIPLE, WIN])
    assert all(hit.memory in speaker.asked[1].messages[-1]["content"] for hit in hits)
    assert all(hit.source_state in speaker.asked[1].messages[-1]["content"] for hit in hits)


@pytest.mark.parametrize("answer", ["<EMPTY>", "", "<EMPTY> because", "<action>look</action>"])
def test_a_rejected_reconstruction_becomes_the_self_reasoning_sentence(play, answer):
    trajectory, speaker, _ = play([ASK, answer, WIN])
    assert trajectory.retrievals[0].outcome == "rejected" and trajectory.steps[0].guidance == ""
    assert "No stored memory applies here." in speaker.asked[2].messages[-1]["content"]
    assert trajectory.turns[1].well_formed == (answer == "<EMPTY>")


def test_an_empty_result_skips_the_reconstruct_turn(play):
    trajectory, speaker, _ = play([ASK, WIN], found=())
    assert kinds(trajectory) == ["act", "act"] and trajectory.retrievals[0].outcome == "empty"
    assert "No stored memory applies here." in speaker.asked[1].messages[-1]["content"]


def test_replay_puts_records_verbatim_into_the_act_prompt(play, hits):
    trajectory, speaker, _ = play([ASK, WIN], use="replay")
    assert kinds(trajectory) == ["act", "act"] and trajectory.retrievals[0].outcome == "replayed"
    text = speaker.asked[1].messages[-1]["content"]
    assert all(hit.memory in text and hit.source_state in text for hit in hits) and "No stored memory" not in text
    assert tuple(speaker.asked[1].hits) == hits


def test_a_second_query_at_the_same_state_is_malformed(play, kitchen):
    trajectory, _, memory = play([ASK, PRINCIPLE, ASK, WIN])
    assert [s.malformed for s in trajectory.steps] == [True, False] and len(memory.queries) == 1
    assert [turn.well_formed for turn in trajectory.turns] == [True, True, False, True]
    assert kitchen.heard == ["go to fridge 1"]


def test_past_max_retrievals_memory_is_no_longer_offered(play):
    trajectory, speaker, memory = play([ASK, PRINCIPLE, LOOK] * 2 + [ASK, WIN], max_retrievals=2)
    assert len(memory.queries) == 2 and [turn.offer_memory for turn in speaker.asked][6:] == [False, False]
    assert [s.malformed for s in trajectory.steps] == [False, False, True, False]


def test_without_memory_a_query_is_malformed_and_nothing_is_offered(play, make_prompts, make_spec, kitchen, script):
    speaker = script([ASK, WIN])
    spec = make_spec(use="none", trigger="off", lowercase_actions=True)
    trajectory = asyncio.run(run_episode(spec, kitchen, speaker, make_prompts("full"), None))
    assert not any(turn.offer_memory for turn in speaker.asked)
    assert trajectory.steps[0].malformed and trajectory.retrievals == [] and trajectory.memory_mode == "none"


def test_trigger_always_asks_with_the_observation_at_every_step(play):
    trajectory, speaker, memory = play([PRINCIPLE, LOOK, PRINCIPLE, WIN], trigger="always", max_retrievals=1)
    assert kinds(trajectory) == ["reconstruct", "act"] * 2
    assert [query.text for query in memory.queries] == [trajectory.steps[0].observation, "Nothing new."]
    assert not any(turn.offer_memory for turn in speaker.asked)


def test_a_completion_without_an_action_costs_a_step_and_leaves_the_environment_alone(play, kitchen):
    trajectory, _, _ = play(["gibberish"], horizon=3)
    assert len(trajectory.steps) == 3 and all(step.malformed for step in trajectory.steps)
    assert kitchen.heard == [] and trajectory.truncated and not trajectory.won


def test_an_inadmissible_action_is_passed_on_and_counted(play, kitchen):
    trajectory, _, _ = play(["<action>Fly  away</action>", WIN])
    assert kitchen.heard[0] == "fly away" and trajectory.steps[0].inadmissible and not trajectory.steps[0].malformed
    assert not trajectory.turns[0].well_formed


def test_case_is_kept_where_the_environment_does_not_fold_it(play, kitchen):
    play(["<think>x</think><action>Look  There</action>"], lowercase_actions=False, horizon=1)
    assert kitchen.heard == ["Look There"]


def test_action_beside_a_query_acts_and_does_not_ask(play):
    trajectory, _, memory = play([ASK + "<action>go to fridge 1</action>"])
    assert trajectory.won and memory.queries == [] and not trajectory.turns[0].well_formed


def test_retrieval_is_free_unless_it_costs_a_step(play, kitchen):
    free, _, _ = play([ASK, PRINCIPLE, LOOK], horizon=1)
    assert len(free.steps) == 1
    paid, _, _ = play([ASK, PRINCIPLE, LOOK], horizon=1, retrieval_costs_step=True)
    assert paid.steps == [] and paid.truncated and len(paid.retrievals) == 1


def test_a_query_names_task_and_state(play):
    _, _, memory = play([ASK, PRINCIPLE, WIN])
    query = memory.queries[0]
    assert (query.env, query.task_id, query.task_type, query.goal) == ("kitchen", "t1", "cool", "cool an apple.")
    assert query.observation.startswith("You are in a kitchen.")


def test_noise_belongs_to_the_turn(play):
    _, speaker, _ = play([ASK, PRINCIPLE, WIN])
    assert [turn.noise for turn in speaker.asked] == [noise_key(7, 0, "t1", 0, n) for n in range(3)]


def test_sampling_is_the_same_for_act_and_reconstruct(play):
    _, speaker, _ = play([ASK, PRINCIPLE, WIN], temperature=0.4, max_tokens=33)
    assert {turn.sampling for turn in speaker.asked} == {Sampling(0.4, 1.0, 0, 33)}


def test_reconstruct_turns_are_trained_unless_switched_off_or_external(play):
    for changes, trained in (({}, True), ({"train_reconstruct": False}, False), ({"use": "external"}, False)):
        trajectory, _, _ = play([ASK, PRINCIPLE, WIN], **changes)
        assert [turn.trainable for turn in trajectory.turns] == [True, trained, True]


def test_a_principle_cut_at_the_token_limit_guides_but_is_not_clean(
    kitchen, make_prompts, make_spec, script, shelf, hits
):
    class Cut(script):
        async def speak(self, turn: TurnRequest) -> Completion:
            done = await super().speak(turn)
            return replace(done, finish_reason="length") if turn.kind == "reconstruct" else done

    trajectory = asyncio.run(run_episode(make_spec(), kitchen, Cut([ASK, PRINCIPLE, WIN]), make_prompts(), shelf(hits)))
    assert trajectory.retrievals[0].outcome == "accepted" and not trajectory.turns[1].well_formed


def test_shortened_prompts_are_counted(kitchen, make_prompts, make_spec, script, shelf, hits):
    prompts = make_prompts("compact", prompt_tokens=15)
    trajectory = asyncio.run(run_episode(make_spec(horizon=2), kitchen, script([LOOK]), prompts, shelf(hits)))
    assert trajectory.shortened_prompts == 2 and all(len(turn.prompt_ids) <= 15 for turn in trajectory.turns)


def test_memory_use_without_a_reader_is_refused(kitchen, make_prompts, make_spec, script):
    with pytest.raises(ValueError, match="give a MemoryReader"):
        asyncio.run(run_episode(make_spec(), kitchen, script([WIN]), make_prompts(), None))


class Echo(Engine):
    """Answers with its own name; keeps the prompts it got."""

    def __init__(self, name, codec):
        self.name, self.codec, self.max_context, self.prompts = name, codec, 10_000, []

    async def generate(self, request):
        self.prompts.append(request.prompt_ids)
        return Completion((1,), (0.0,), f"Ask {self.name}.", "stop")


def test_an_external_reconstructor_reads_the_messages_in_its_own_tokens(
    codec, make_prompts, kitchen, script, shelf, hits, make_spec
):
    theirs = type(codec)()
    theirs.encode_text("some other vocabulary comes first")
    policy, other = Echo("policy", codec), Echo("other", theirs)
    router = EngineSpeaker(policy, {"reconstruct": other})

    class Mixed(script):
        async def speak(self, turn: TurnRequest) -> Completion:
            return await router.speak(turn) if turn.kind == "reconstruct" else await super().speak(turn)

    trajectory = asyncio.run(
        run_episode(make_spec(use="external"), kitchen, Mixed([ASK, WIN]), make_prompts(), shelf(hits))
    )
    assert trajectory.retrievals[0].guidance == "Ask other." and policy.prompts == []
    assert theirs.decode(other.prompts[0]) == codec.decode(trajectory.turns[1].prompt_ids)
