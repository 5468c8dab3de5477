"""The parser reads the protocol strictly, acts leniently and never raises."""

import time

from hypothesis import given
from hypothesis import strategies as st

from mh_train.agent.parse import EMPTY, TAGS, normalise_action, parse_act, parse_reconstruct, without_actions

THINK = "<think>the fridge cools</think>"
pieces = st.sampled_from(
    [f"<{slash}{tag}>" for tag in TAGS for slash in ("", "/")] + ["look", " ", "\n", EMPTY, "<think", "é", "<|im_end|>"]
)
broken = st.lists(pieces, max_size=14).map("".join) | st.text(max_size=200)


def test_thought_and_action_is_well_formed():
    reply = parse_act(f"{THINK}\n<action> go to  fridge 1 </action>")
    assert reply == reply.__class__("the fridge cools", " go to  fridge 1 ", None, True)


def test_thought_and_query_is_well_formed():
    reply = parse_act(f"{THINK}<retrieve_memory>where are apples</retrieve_memory>")
    assert (reply.action, reply.query, reply.well_formed) == (None, "where are apples", True)


def test_look_is_an_action_like_any_other():
    assert parse_act(f"{THINK}<action>look</action>").well_formed


def test_action_and_query_together_act_but_lose_the_mark():
    for text in (
        f"{THINK}<action>look</action><retrieve_memory>apples</retrieve_memory>",
        f"{THINK}<retrieve_memory>apples</retrieve_memory><action>look</action>",
    ):
        reply = parse_act(text)
        assert (reply.action, reply.query, reply.well_formed) == ("look", None, False)


def test_bad_format_with_one_readable_action_still_acts():
    for text in (
        "<action>look</action>",
        "<think></think><action>look</action>",
        "<think> \n </think><action>look</action>",
        f"{THINK}{THINK}<action>look</action>",
        f"<action>look</action>{THINK}",
        "<think>open <action>look</action>",
        "<think>outer <action>look</action></think>",
        f"{THINK}<action>look</action></action>",
        "<think>I use <action> tags</think><action>look</action>",
    ):
        assert (parse_act(text).action, parse_act(text).well_formed) == ("look", False), text


def test_no_single_readable_action_means_none():
    for text in (
        "",
        "go to fridge 1",
        f"{THINK}<action></action>",
        f"{THINK}<action>  </action>",
        f"{THINK}<action>look</action><action>go to fridge 1</action>",
        f"{THINK}<action>look",
        f"{THINK}look</action>",
        f"{THINK}<action><think>look</think></action>",
        f"{THINK}<ACTION>look</ACTION>",
    ):
        reply = parse_act(text)
        assert reply.action is None and reply.query is None and not reply.well_formed, text


def test_two_queries_or_an_empty_one_are_not_a_query():
    for body in ("<retrieve_memory>a</retrieve_memory>" * 2, "<retrieve_memory> </retrieve_memory>"):
        assert parse_act(THINK + body).query is None


def test_text_around_the_blocks_is_ignored():
    assert parse_act(f"Sure.\n{THINK} then <action>look</action> done").well_formed


def test_principle_and_empty_are_the_two_clean_reconstructions():
    assert parse_reconstruct(" Cool it in\nthe fridge 1. ") == parse_reconstruct("Cool it in the fridge 1.")
    assert parse_reconstruct("Cool it.").guidance == "Cool it." and parse_reconstruct("Cool it.").well_formed
    refused = parse_reconstruct(f"  {EMPTY}\n")
    assert refused.guidance == "" and refused.well_formed


def test_everything_else_is_rejected_and_not_clean():
    for text in (
        "",
        " \n",
        f"{EMPTY} because the room differs",
        f"use it {EMPTY}",
        "<empty>",
        "<think>x</think>",
        "go <action>look</action>",
        "</think> Cool it",
        "<retrieve_memory>x",
        "< Action >look",
    ):
        reply = parse_reconstruct(text)
        assert reply.guidance == "" and not reply.well_formed, text


def test_other_angle_brackets_are_ordinary_text():
    assert parse_reconstruct("Pick a price < 50 and > 20.").well_formed


def test_actions_are_trimmed_collapsed_and_lower_cased_on_demand():
    assert normalise_action("  Go  to\n Fridge 1\t") == "Go to Fridge 1"
    assert normalise_action("Go to Fridge 1", lowercase=True) == "go to fridge 1"


def test_only_the_insides_of_actions_are_taken_out():
    assert without_actions(f"{THINK}<action>click[红]</action>x") == f"{THINK}<action></action>x"
    assert without_actions("<action>open") == "<action>open"


@given(broken)
def test_never_raises_and_never_both(text):
    reply = parse_act(text)
    assert reply.action is None or reply.query is None
    if reply.well_formed:
        assert reply.thought and (reply.action is not None or reply.query is not None)
        assert text.count("<think>") == text.count("</think>") == 1
        assert text.count("<action>") + text.count("<retrieve_memory>") == 1
    guidance = parse_reconstruct(text).guidance
    assert not any(f"<{tag}>" in guidance for tag in TAGS) and EMPTY not in guidance
    assert len(without_actions(text)) <= len(text)


@given(broken, broken)
def test_well_formed_means_one_block_after_the_other(thought, action):
    reply = parse_act(f"<think>{thought}</think><action>{action}</action>")
    plain = not any(f"<{slash}{tag}>" in text for text in (thought, action) for tag in TAGS for slash in ("", "/"))
    if plain:
        assert reply.well_formed == bool(thought.strip() and action.strip())
    else:
        assert not reply.well_formed


def test_huge_and_repeated_input_is_read_in_linear_time():
    started = time.process_time()
    for text in ("<think>" * 100_000, "<action>look</action>" * 50_000, "<" * 1_000_000, "x" * 1_000_000 + "</action>"):
        assert not parse_act(text).well_formed
        parse_reconstruct(text)
        without_actions(text)
    assert time.process_time() - started < 5.0


def test_the_query_tag_of_a_preset_is_read_and_the_standard_one_stays_known():
    asked = parse_act("<think>where</think><memory_retrieve>bread in a kitchen</memory_retrieve>", "memory_retrieve")
    assert (asked.query, asked.well_formed) == ("bread in a kitchen", True)
    assert parse_act("<think>a</think><retrieve_memory>b</retrieve_memory>", "memory_retrieve").query == "b"
    assert parse_act("<think>where</think><memory_retrieve>bread</memory_retrieve>").query is None
    assert parse_reconstruct("look <memory_retrieve>x</memory_retrieve>").guidance == ""
