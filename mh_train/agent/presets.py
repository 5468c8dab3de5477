"""The words of the prompts: `full` for language models of 1B parameters and more, `compact` for the tiny policy,
`release` for checkpoints of the official MemHarness release (its tags and order of blocks, our words).

Why: wording is data; how a prompt is built and shortened (`agent.prompts`) is the same for every preset.
Invariants: `system` is the same for all modes and all turns of a run (an engine's prefix cache lives on that), and only
the mode line says whether memory may be asked. Every rendering is kept as a golden file in tests/agent/golden.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """Templates for `str.format`; an empty template leaves its block out."""

    system: str
    task: str
    steps: str
    history: str
    """Heads the history block."""
    pair: str
    first_pair: str
    """The pair of step 0, whose observation is the room or start page."""
    observation: str
    start: str
    """The first observation, repeated in reconstruct prompts; the history is then left out of them."""
    actions: str
    action_join: str
    no_action: str
    """Stands for the action of a malformed step."""
    guidance: str
    records: str
    record: str
    summaries: str
    summary: str
    guards: str
    guard: str
    act: str
    act_or_ask: str
    rewrite: str
    episode_pair: str
    left_out: str
    """Stands for the steps cut out of an over-long episode."""
    last_observation: str
    ended: str
    cut_off: str
    distill: str
    block_join: str
    query_tag: str = "retrieve_memory"
    """The tag around a question to the memory."""
    memory_last: bool = False
    """Guidance and records come after the mode line instead of before it."""


FULL = Preset(
    system="""You solve tasks in text environments one step at a time, and you have a memory of earlier episodes. \
Each message describes where you are and closes with a line that names the mode to answer in. Answer in English, in \
that mode only.

Mode act
Reason first, inside one <think>...</think> block that is never empty. Then give one action inside one \
<action>...</action> block. Copy the action from the admissible actions; if it shows a placeholder such as <your \
query>, fill the placeholder in.

Mode act or ask
As mode act, but a question to the memory may take the place of the action: after the <think> block, one short \
search query inside one <retrieve_memory>...</retrieve_memory> block. Ask when you are unsure how to go on. One \
answer never holds both an action and a query; you act in the answer after it.

Mode rewrite
The message shows memories, each next to the state it was learned in. Compare those states with the current one and \
write one short principle that fits the current task and state, with the names that occur there. Write it as an \
instruction or a neutral statement: no first person, no reasoning, no list of steps, no tags. If no memory fits, \
answer exactly <EMPTY>.

Mode distill
The message shows a finished episode. Answer with one JSON object and nothing around it:
{"memories": [{"situation": "...", "memory": "..."}]}
"situation" is one sentence: the kind of state in which the memory helps, not a copy of an observation. "memory" is \
one sentence of advice that the episode supports and that helps in similar tasks: what worked, or what to check when \
it failed; neither a retelling nor a single command. With nothing worth keeping the list is empty.""",
    task="Task: {goal}",
    steps="Steps taken: {count}",
    history="Last steps, oldest first:",
    pair="Observation: {observation}\nAction: {action}",
    first_pair="Observation: {observation}\nAction: {action}",
    observation="Current observation:\n{observation}",
    start="",
    actions="Admissible actions:\n{actions}",
    action_join="\n",
    no_action="(no readable action)",
    guidance="Guidance from memory, rewritten for this state: {guidance}",
    records="Memories, best match first:",
    record="State it was learned in: {state}\nMemory: {memory}",
    summaries="Summaries of repeated experience:",
    summary="- {memory}",
    guards="Constraints from earlier failures; keep to each one whose condition holds here:",
    guard="- {memory}",
    act="Mode: act. Answer with <think>...</think> and one <action>...</action>.",
    act_or_ask=(
        "Mode: act or ask. Answer with <think>...</think> and either one <action>...</action> or, to search the "
        "memory, one <retrieve_memory>...</retrieve_memory>."
    ),
    rewrite="Mode: rewrite. Answer with one principle that fits the current state, or exactly <EMPTY>.",
    episode_pair="Observation: {observation}\nAction: {action}",
    left_out="({count} steps left out)",
    last_observation="Last observation:\n{observation}",
    ended="The environment ended the episode after {count} steps.",
    cut_off="The episode was cut off after {count} steps.",
    distill="Mode: distill. Answer with the JSON object; its list holds at most {most}.",
    block_join="\n\n",
)

COMPACT = Preset(
    system="",
    task="task {goal}",
    steps="step {count}",
    history="",
    pair="saw {observation} did {action}",
    first_pair="did {action}",
    observation="now {observation}",
    start="room {observation}",
    actions="can {actions}",
    action_join=" , ",
    no_action="nothing",
    guidance="hint {guidance}",
    records="",
    record="there {state} memory {memory}",
    summaries="",
    summary="summary {memory}",
    guards="",
    guard="guard {memory}",
    act="act",
    act_or_ask="act or ask",
    rewrite="rewrite",
    episode_pair="saw {observation} did {action}",
    left_out="skip {count}",
    last_observation="now {observation}",
    ended="end done",
    cut_off="end cut",
    distill="distill",
    block_join="\n",
)

_RELEASE_ACT = """It is your turn to act. Think step by step about the situation first, inside <think> </think> tags. \
Then choose one of the admissible actions for this step and give it inside <action> </action> tags."""

RELEASE = Preset(
    system="",
    task="You are an expert agent in a text environment. Your task is to: {goal}",
    steps="Steps taken before this one: {count}",
    history="The most recent observations and the actions you took there:",
    pair="[Observation {index}: '{observation}', Action {index}: '{action}']",
    first_pair="[Observation {index}: '{observation}', Action {index}: '{action}']",
    observation="Your current observation is: {observation}",
    start="",
    actions="Your admissible actions in this situation are: [\n '{actions}'\n].",
    action_join="'\n '",
    no_action="(no readable action)",
    guidance="<memory>\nPast memories, adapted to this situation:\nAdapted memory principle 1:\n{guidance}\n</memory>",
    records="Memories from earlier episodes:",
    record="--- Memory ---\nSituation: {state}\nPrinciple: {memory}",
    summaries="Summaries of repeated experience:",
    summary="- {memory}",
    guards="Constraints from earlier failures:",
    guard="- {memory}",
    act=_RELEASE_ACT,
    act_or_ask=_RELEASE_ACT
    + """

There is also a memory bank of experience from similar tasks. When you are unsure how to go on, ask it before you act: \
write exactly one search query inside <memory_retrieve> </memory_retrieve> tags. A reply never holds both a query and \
an action; once the memory has answered, your next reply is an action.""",
    rewrite="""Above are the task, the current situation, and a retrieved principle with the historical state it comes \
from. Adapt the principle to the current situation and task. Output rules: exactly one short adapted principle, or \
exactly <EMPTY> when it does not apply; neutral or imperative wording, no first person, no explanation, no list of \
next steps.""",
    episode_pair="Observation: {observation}\nAction: {action}",
    left_out="({count} steps left out)",
    last_observation="Last observation: {observation}",
    ended="The environment ended the episode after {count} steps.",
    cut_off="The episode was cut off after {count} steps.",
    distill="""Extract at most {most} reusable memories from the completed episode above. Return one JSON object and \
nothing else: {{"memories": [{{"situation": "...", "memory": "..."}}]}}. "situation": one short sentence, the state or \
precondition in general terms. "memory": one short sentence of advice that the episode supports. With nothing worth \
keeping the list is empty.""",
    block_join="\n\n",
    query_tag="memory_retrieve",
    memory_last=True,
)

PRESETS = {"full": FULL, "compact": COMPACT, "release": RELEASE}
