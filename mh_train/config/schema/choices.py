"""The values of settings that name one of several ways."""

from __future__ import annotations

from enum import Enum


class Use(str, Enum):
    """What happens to retrieved records (`memory.use`)."""

    reconstruct = "reconstruct"  # the policy rewrites them for its state, or rejects them
    replay = "replay"  # they go into the act prompt as they are
    none = "none"  # there is no memory
    external = "external"  # another model rewrites them; its tokens are never trained


class Trigger(str, Enum):
    """Who decides to retrieve (`memory.trigger`)."""

    agentic = "agentic"  # the policy asks
    always = "always"  # every step; the observation is the query
    off = "off"  # nobody


class Estimator(str, Enum):
    """Advantage estimators (`learn.estimator`)."""

    grpo = "grpo"  # (R - mean) / std over the group
    rloo = "rloo"  # R - mean of the others
    dr_grpo = "dr_grpo"  # R - mean
    gigpo = "gigpo"  # GRPO plus the same among visits of one state
    reinforce_pp = "reinforce_pp"  # (R - mean) / std over the whole update


class Writer(str, Enum):
    """Who words new memories (`memory.writer`)."""

    distill = "distill"  # the policy's {"situation", "memory"} pairs (MemHarness)
    induce = "induce"  # typed candidates with evidence spans (MemGuard)
    exemplar = "exemplar"  # whole episodes as worked examples, no model (Synapse)
    workflow = "workflow"  # the routines of episodes, no model (AWM)


class Manager(str, Enum):
    """Who decides what becomes of a new memory (`memory.manager`)."""

    rules = "rules"  # deduplication and governance
    mem0 = "mem0"  # a model: add, update, delete
    expel = "expel"  # a model: add, edit, agree, remove, with votes


class Outcome(str, Enum):
    """What usage counts as a success (`memory.outcome`)."""

    environment = "environment"  # the benchmark's own success
    verifier = "verifier"  # no hidden label ever reaches the bank


class Judging(str, Enum):
    """Who scores trajectories (`memory.verifier.source`)."""

    off = "off"  # nobody
    policy = "policy"  # the policy itself
    engine = "engine"  # another model, `memory.verifier.engine` (an OpenAI-compatible server: name=api)
    runtime_status = "runtime_status"  # no model: only what the agent saw


class FlatGroups(str, Enum):
    """What groups without outcome spread contribute (`learn.flat_groups`)."""

    keep = "keep"  # normalise whatever spread the format reward leaves (the paper)
    drop = "drop"  # nothing
    outcome_only = "outcome_only"  # nothing; every other advantage comes from the outcome alone


class Select(str, Enum):
    """Which checkpoint evaluation and export take (`learn.checkpoint.select`)."""

    last = "last"  # the newest
    best = "best"  # the best on `evaluate.every_panel`; of equals the earlier
