"""A small run folder written with the project's own writers, full of text that means harm."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

from mh_train.agent.types import MemoryHit, Retrieval, Step, Trajectory, Turn
from mh_train.config import compose
from mh_train.config.schema import EmbedderConfig, MemoryConfig, MilvusConfig
from mh_train.evaluate.results import compare_modes, episode_row, summarise, task_values
from mh_train.files import write_json, write_jsonl
from mh_train.memory.bank import Bank, add_event
from mh_train.memory.embed import HashingEmbedder
from mh_train.memory.journal import Event
from mh_train.memory.records import Descriptor, Provenance, Record
from mh_train.rollout.writer import write_trajectories
from mh_train.run.folder import RunFolder
from mh_train.run.metrics import Metrics

SCRIPT = "<script>window.harmed = true; console.error('harm')</script><img src=x onerror=\"window.harmed = true\">"
CLOSING = "</script></style></title></textarea>--><svg onload='window.harmed = true'>"
BROKEN = "lone \ud800 surrogate, NUL \0, turned \u202e around, combining e\u0301\u0301\u0301, \U0001f9ea"
LONG = "word" * 262_144
"""One line of a megabyte."""
HARM = f"{SCRIPT} {CLOSING} {BROKEN}"
UPDATES, GROUP = 3, 4
MODES = ("memory", "replay")


def episode(update: int, number: int, task: str = "task-0") -> Trajectory:
    """An episode that asks once; every text in it is hostile, the last one of an update is a megabyte long."""
    record = f"m{number % 3:03d}"
    seen = LONG if number == GROUP - 1 else f"You see {HARM}"
    text = f"<think> {HARM} </think> <retrieve_memory> where is {SCRIPT} </retrieve_memory>"
    outcome = "accepted" if number % 2 == 0 else "rejected"
    guidance = f"bread is in fridge 2 {CLOSING}" if outcome == "accepted" else ""
    hit = MemoryHit(
        record, f"bread was in fridge 1 {CLOSING}", f"A kitchen {SCRIPT}", "positive", "", 0.8, {"cosine": 0.5}
    )
    return Trajectory(
        id=f"u{update:05d}-g000-e{number}",
        env="toy",
        split="train",
        task_id=task,
        task_type=f"pick {CLOSING}" if number == 0 else "pick",
        goal=f"put bread away {HARM}",
        group=0,
        episode=number,
        turns=[
            Turn("act", 0, (1, 2), (3, 4, 5), (-0.1, -2.0, -9.0), text),
            Turn("reconstruct", 0, (1,), (6,), (-0.5,), guidance or "<EMPTY>"),
            Turn("act", 0, (1, 2), (3,), (-0.1,), f"<action> look {SCRIPT} </action>", well_formed=False),
        ],
        steps=[Step(seen, ("look", f"take {SCRIPT}"), f"look {SCRIPT}", inadmissible=number == 1)],
        retrievals=[Retrieval(0, f"where is {SCRIPT}", (hit,), outcome, guidance)],  # type: ignore[arg-type]
        final_observation=HARM,
        won=number % 2 == 0,
        score=float(number % 2 == 0),
        reward=10.0 * (number % 2 == 0),
        reward_parts={"outcome": 10.0, SCRIPT: 1.0},
        advantage=1.0 - number,
        extra={"note": HARM},
    )


def write_bank(folder: RunFolder) -> None:
    """Four records: judged, used, in conflict, pruned."""
    embedder = HashingEmbedder(32)
    config = MemoryConfig(milvus=MilvusConfig(enabled=False), embedder=EmbedderConfig(name="hashing", dim=32))
    bank = Bank(config, embedder, folder.bank)
    records = [
        Record(
            f"m{i:03d}",
            "toy",
            "pick",
            f"bread was in fridge {i} {HARM}",
            title=f"Bread {SCRIPT}",
            source_state=f"A kitchen {HARM}",
            evidence_span=CLOSING,
            descriptor=Descriptor(0.9 - 0.2 * i, 0.8, ("verified_success", "uncertain", "verified_fail")[i % 3], 1),
            provenance=(Provenance("hostile", 1, "task-0", f"u00001-g000-e{i}", 0),),
        )
        for i in range(4)
    ]
    vectors = embedder.encode([record.key_text() for record in records])
    bank.apply([add_event(r, v, 1, "curate", f"distilled {SCRIPT}") for r, v in zip(records, vectors, strict=True)])
    view = {"view": f"full {CLOSING}", "label": "verified_success", "scores": {"outcome": [0.9, 0.1]}, "quoted": 2}
    bank.apply(
        [Event("verify", "m000", 1, "verifier", "verdict", {"views": [view, {**view, "view": "risk"}], "unread": 1})]
    )
    bank.commit(1)
    uses = {"c_use": 2, "c_succ": 1, "accepted": 1, "rejected": 1, "accepted_succ": 1}
    bank.apply([Event("use", f"m{i:03d}", 2, "curate", "retrieved", uses) for i in range(3)])
    bank.apply([Event("conflict", "m000", 2, "curate", CLOSING, {"other": "m001", "loser": "m001"})])
    bank.apply(
        [Event("reject", "m999", 2, "curate", SCRIPT, {"type": "tool_usage", "content": HARM, "trajectory": "x"})]
    )
    bank.apply([Event("prune", "m003", 2, "curate", f"utility {SCRIPT}", {})])
    bank.commit(2)
    bank.close()


def write_evaluation(folder: RunFolder) -> None:
    """Two modes on one panel of four tasks, as an evaluation leaves them."""
    played = {mode: [episode(9, i + (mode == "replay"), f"task-{i} {CLOSING}") for i in range(4)] for mode in MODES}
    rows = {mode: list(map(episode_row, played[mode])) for mode in MODES}
    for mode in MODES:
        write_trajectories(folder.evaluation / "trajectories" / f"test.{mode}.0.jsonl", played[mode])
        write_jsonl(folder.evaluation / "cells" / f"test.{mode}.0.jsonl", [{"mode": mode}, *rows[mode]])
    values = {"test": {mode: task_values({0: rows[mode]}, "abc") for mode in MODES}}
    result = {
        "seeds": [0],
        "modes": {mode: {"mode": mode} for mode in MODES},
        "panels": {"test": {"hash": "abc", "tasks": 4}},
        "results": {"test": {mode: summarise({0: rows[mode]}) for mode in MODES}},
        "comparisons": compare_modes(values, "success"),
    }
    write_json(folder.evaluation / "eval.json", result)


def write_run(root: Path, name: str = "hostile") -> Path:
    """The whole run folder."""
    config = compose(["experiment=toy", f"root={root}", f"name={name}", "memory.milvus.token=sesame"])
    folder = RunFolder.open(config)
    metrics = Metrics(folder, config)
    for update in range(1, UPDATES + 1):
        episodes = [episode(update, number) for number in range(GROUP)]
        write_trajectories(folder.trajectories / f"update-{update:05d}.jsonl", episodes)
        numbers = {"env/success": 0.5, "env/episodes": 4.0, "reward/mean": 5.0 + update, "learn/entropy": 0.01 / update}
        retrieved = {"memory/retrievals": 1.0, "memory/accepted": 0.5, "memory/rejected": 0.5, "memory/active": 3.0}
        metrics.log(update, {**numbers, **retrieved, "learn/loss": float("nan"), "time/update_s": 1.0})
    write_bank(folder)
    write_evaluation(folder)
    return folder.path


def blocks_of(report: str) -> dict[str, Any]:
    """The data blocks of a report, opened."""
    found = re.findall(r'<script type="text/plain" id="data-([^"]+)">([A-Za-z0-9+/=]*)</script>', report)
    return {name: json.loads(gzip.decompress(base64.b64decode(text))) for name, text in found}
