"""Modes x panels x seeds on the toy environment: what is written, what is reused, what is refused."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from envs.pool import EnvPool
from envs.toy import ToyEnv
from mh_train.agent.prompts import Prompts
from mh_train.agent.types import MemoryHit
from mh_train.config.schema import EnvConfig, MemoryConfig, MilvusConfig, RunConfig
from mh_train.engine.base import Completion, noise_key
from mh_train.evaluate.interop import harness
from mh_train.evaluate.modes import MODES
from mh_train.evaluate.results import compare_modes, summarise
from mh_train.evaluate.runner import Parts, evaluate, read_values
from mh_train.evaluate.statistics import EvaluationError, paired_bootstrap
from mh_train.evaluate.table import comparison_rows, markdown, result_rows, terminal
from mh_train.memory.bank import Bank, add_event
from mh_train.memory.embed import HashingEmbedder
from mh_train.memory.reader import BankReader
from mh_train.memory.records import Record
from mh_train.rollout.panels import make_panel

HITS = [
    MemoryHit(f"m-{colour}", f"the {colour} key was in the {place}", "You are in the hall.")
    for colour, place in {"red": "cupboard", "blue": "desk", "green": "drawer", "white": "desk"}.items()
]
ABOUT = {"versions": {"mh_train": "0"}, "policy": "toy-expert"}


class LengthCodec:
    """Prompts are as long as their text; nobody reads the ids here."""

    def encode(self, messages):
        return list(range(sum(len(message["content"].split()) for message in messages)))


class ToyMemory:
    """Finds what was learnt about a colour; nothing about black and yellow."""

    async def retrieve(self, query):
        return [hit for hit in HITS if hit.record_id.removeprefix("m-") in query.goal]


class ExpertSpeaker:
    """The toy's expert through the protocol; asks once, believes what it is told."""

    def __init__(self, seed):
        self.expert, self.asked, self.told = ToyEnv.expert(seed), False, ""

    async def speak(self, turn):
        if turn.kind == "reconstruct":
            text = (
                self.expert.reconstruct(turn.observation, [(h.memory, h.source_state) for h in turn.hits]) or "<EMPTY>"
            )
        elif turn.offer_memory and not self.asked:
            self.asked = True
            text = f"<think>ask</think><retrieve_memory>{self.expert.query(turn.observation)}</retrieve_memory>"
        else:
            self.told = self.told or turn.guidance or " ".join(hit.memory for hit in turn.hits)
            thought, action = self.expert.act(turn.observation, self.told)
            text = f"<think>{thought}</think><action>{action}</action>"
        return Completion((1,), (0.0,), text, "stop")


def settings(modes=("memory", "none", "replay", "empty"), seeds=(0, 1), **changes):
    config = RunConfig()
    config.env = EnvConfig(name="toy", horizon=4, workers=0)
    config.rollout.retries = 0
    config.evaluate.modes, config.evaluate.seeds = list(modes), list(seeds)
    config.evaluate.temperature = changes.get("temperature", 0.4)
    return config


def panels(n=12):
    return [make_panel(ToyEnv, split, {}, limit=n) for split in ("valid_seen", "valid_unseen")]


class Voices:
    """Fresh experts, and the labels of the cells they spoke in."""

    def __init__(self):
        self.cells = []

    def __call__(self, spec):
        cell = spec.id.rsplit("-g", 1)[0]
        if cell not in self.cells:
            self.cells.append(cell)
        return ExpertSpeaker(noise_key(*spec.noise_parts))


def run(folder, config=None, voices=None, digest=lambda: "bank-1", about=ABOUT, on=None, env="toy"):
    async def play():
        async with EnvPool(env, {}, workers=0, timeout_s=10) as pool:
            prompts = Prompts("full", LengthCodec(), 4096, 3, "No memory applies.")
            sources = {hit.record_id: hit.source_state for hit in HITS}
            parts = Parts(pool, prompts, voices or Voices(), ToyMemory(), sources, digest)
            return await evaluate(config or settings(), on or panels(), parts, Path(folder), about)

    return asyncio.run(play())


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eval")
    return folder, run(folder)


def test_eval_json_names_panels_bank_versions_seeds_and_modes(finished):
    folder, result = finished
    assert json.loads((folder / "eval.json").read_text()) == result
    assert result["panels"]["valid_seen"] == {"hash": panels()[0].hash, "tasks": 12}
    assert (result["bank"], result["seeds"], result["versions"]) == ("bank-1", [0, 1], {"mh_train": "0"})
    assert result["settings"]["temperature"] == 0.4 and result["settings"]["env"]["horizon"] == 4
    assert list(result["modes"]) == ["memory", "none", "replay", "empty"]
    assert result["modes"]["replay"] == {"mode": "replay", "use": "replay", "trigger": "agentic"}


def test_summaries_hold_what_the_episodes_did(finished):
    _, result = finished
    memory, none, replay, empty = result["results"]["valid_unseen"].values()
    assert memory["success"]["mean"] > none["success"]["mean"]
    assert (none["retrievals"]["mean"], empty["retrievals"]["mean"], empty["empty"]["mean"]) == (0.0, 1.0, 1.0)
    assert (replay["replayed"]["mean"], replay["accepted"]["mean"]) == (pytest.approx(8 / 12), 0.0)
    assert memory["accepted"]["mean"] == pytest.approx(8 / 12) and memory["empty"]["mean"] == pytest.approx(4 / 12)
    assert memory["when_accepted"] == {"episodes": 16, "success": 1.0}
    assert memory["tasks"] == 12 and memory["episodes"] == 24 and memory["dropped"] == 0
    assert {kind: part["tasks"] for kind, part in memory["per_type"].items()} == {"unlock": 6, "fetch": 6}
    shares = [part["mean"] for part in memory["per_type"].values()]
    assert memory["macro"]["mean"] == pytest.approx(sum(shares) / 2)
    low, high = memory["success"]["wilson"]
    assert low < memory["success"]["mean"] < high


def test_the_first_mode_is_compared_with_every_other_on_every_panel(finished):
    _, result = finished
    assert [(c["panel"], c["a"], c["b"]) for c in result["comparisons"]] == [
        (panel, "memory", other) for panel in ("valid_seen", "valid_unseen") for other in ("none", "replay", "empty")
    ]
    for one in result["comparisons"]:
        cells_of = result["results"][one["panel"]]
        assert one["difference"] == pytest.approx(
            cells_of["memory"]["success"]["mean"] - cells_of[one["b"]]["success"]["mean"]
        )
        assert one["p_value"] <= one["p_benjamini_hochberg"] <= one["p_holm"] <= 1.0


def test_a_second_run_writes_the_same_bytes(finished, tmp_path):
    folder, _ = finished
    run(tmp_path)
    names = sorted(path.relative_to(folder) for path in folder.rglob("*.json*") if path.name != "latency.jsonl")
    assert len(names) == 33  # eval.json, the rows and the trajectories of 16 cells
    for name in names:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_times_are_kept_apart(finished):
    folder, _ = finished
    lines = [json.loads(line) for line in (folder / "latency.jsonl").read_text().splitlines()]
    assert len(lines) == 16 and all(line["time/episode_s"] > 0 for line in lines)
    assert "time" not in (folder / "eval.json").read_text().replace("timeout", "")


def test_finished_cells_are_not_played_again(tmp_path):
    first, second, third = Voices(), Voices(), Voices()
    run(tmp_path, settings(seeds=(0,)), first)
    result = run(tmp_path, settings(), second)
    assert len(first.cells) == len(second.cells) == 8 and not set(first.cells) & set(second.cells)
    assert run(tmp_path, settings(), third) == result and third.cells == []


@pytest.mark.parametrize("change", ["policy", "bank", "panel", "setting"])
def test_a_cell_of_other_settings_is_played_again(tmp_path, change):
    once, voices = settings(seeds=(0,)), Voices()
    run(tmp_path, once)
    if change == "policy":
        run(tmp_path, once, voices, about={**ABOUT, "policy": "another"})
    elif change == "bank":
        run(tmp_path, once, voices, digest=lambda: "bank-2")
    elif change == "panel":
        run(tmp_path, once, voices, on=panels(6))
    else:
        run(tmp_path, settings(seeds=(0,), temperature=0.5), voices)
    assert len(voices.cells) == 8


def test_a_killed_evaluation_keeps_its_finished_cells(tmp_path):
    class Killed(Voices):
        def __call__(self, spec):
            speaker = super().__call__(spec)
            if len(self.cells) == 4:
                raise KeyboardInterrupt
            return speaker

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, settings(seeds=(0,)), Killed())
    assert not (tmp_path / "eval.json").exists()
    rest = Voices()
    run(tmp_path, settings(seeds=(0,)), rest)
    assert len(rest.cells) == 5


def test_a_bank_that_changes_is_an_error_and_its_cell_is_not_kept(tmp_path):
    digests = iter(["before", "after"])
    with pytest.raises(EvaluationError, match="bank changed"):
        run(tmp_path, digest=lambda: next(digests))
    assert not list(tmp_path.rglob("*.jsonl"))


def test_a_task_whose_environment_breaks_counts_as_a_failure_and_as_dropped(tmp_path):
    whole = panels()[0]
    broken = replace(whole, tasks=(replace(whole.tasks[0], data={}), *whole.tasks[1:]))
    result = run(tmp_path, settings(modes=("memory",), seeds=(0,)), on=[broken])
    cell = result["results"]["valid_seen"]["memory"]
    assert cell["dropped"] == 1 and cell["episodes"] == 12
    assert read_values(tmp_path, "valid_seen", "memory").values[whole.tasks[0].id] == 0.0


def test_an_unknown_mode_is_refused(tmp_path):
    with pytest.raises(EvaluationError, match="unknown"):
        run(tmp_path, settings(modes=("magic",)))


def test_no_secret_and_no_address_is_written(tmp_path):
    config = settings(modes=("none",), seeds=(0,))
    config.memory.milvus.uri, config.memory.milvus.token = "http://secret-host:1", "secret-token"
    config.memory.verifier.engine.options["url"] = "http://secret-host:2"
    run(tmp_path, config)
    assert "secret" not in (tmp_path / "eval.json").read_text()


def test_two_evaluations_are_compared_task_by_task(finished, tmp_path):
    folder, result = finished
    run(tmp_path, settings(modes=("none",)))
    after, before = read_values(folder, "valid_unseen", "memory"), read_values(tmp_path, "valid_unseen", "none")
    listed = next(c for c in result["comparisons"] if c["panel"] == "valid_unseen" and c["b"] == "none")
    assert paired_bootstrap(after, before).difference == pytest.approx(listed["difference"])
    with pytest.raises(EvaluationError, match="mh-train eval"):
        read_values(tmp_path, "valid_unseen", "memory")


def test_the_tables_show_every_mode_and_comparison(finished):
    _, result = finished
    assert len(result_rows(result)) == 8 and len(comparison_rows(result)) == 6
    text = markdown(result)
    assert text.count("\n| valid_unseen ") == 7 and "memory - replay" in text and " ± " in text
    assert [len(table.rows) for table in terminal(result).renderables] == [8, 6]


def test_a_single_mode_and_seed_has_no_spread_and_no_comparison(tmp_path):
    result = run(tmp_path, settings(modes=("memory",), seeds=(0,)))
    assert result["comparisons"] == [] and "±" not in markdown(result)
    assert result["results"]["valid_seen"]["memory"]["success"]["std"] is None


def row(task, success, kind="pick", **numbers):
    names = "score steps turns retrievals accepted rejected empty replayed malformed inadmissible truncated shortened"
    return {
        "task": task,
        "type": kind,
        "dropped": False,
        "asked": [],
        "success": success,
        **dict.fromkeys([*names.split(), "prompt_tokens", "completion_tokens"], 0.0),
        **numbers,
    }


def test_summary_by_hand():
    seeds = {
        0: [
            row("a", 1.0, steps=4.0, retrievals=1.0, accepted=1.0),
            row("b", 0.0, steps=12.0, retrievals=1.0, rejected=1.0),
            row("c", 1.0, "heat", steps=8.0),
        ],
        1: [
            row("a", 1.0, steps=6.0),
            row("b", 1.0, steps=8.0, retrievals=1.0, rejected=1.0),
            row("c", 1.0, "heat", steps=10.0),
        ],
    }
    got = summarise(seeds)
    assert got["success"]["mean"] == pytest.approx(5 / 6) and got["success"]["std"] == pytest.approx(0.2357, abs=1e-4)
    assert got["per_type"]["pick"]["mean"] == pytest.approx(0.75) and got["macro"]["mean"] == pytest.approx(0.875)
    assert got["steps"]["mean"] == 8.0 and got["retrievals"]["mean"] == pytest.approx(0.5)
    assert got["when_accepted"] == {"episodes": 1, "success": 1.0}
    assert got["when_rejected"] == {"episodes": 2, "success": 0.5}


def test_no_comparison_for_a_lonely_mode():
    assert compare_modes({}, "success") == []


def test_a_real_bank_is_the_same_to_the_byte_after_every_mode(tmp_path):
    memory = MemoryConfig(k=3, milvus=MilvusConfig(enabled=False))
    bank = Bank(memory, HashingEmbedder(64), tmp_path / "bank")
    for hit in HITS:
        record = Record(
            id=hit.record_id, env="toy", task_type="fetch", content=hit.memory, source_state=hit.source_state
        )
        [vector] = bank.embedder.encode([record.key_text()])
        bank.apply([add_event(record, vector, 0, "test", "seed")])
    bank.commit(0)
    files = {path: path.read_bytes() for path in sorted((tmp_path / "bank").rglob("*")) if path.is_file()}
    config = settings(modes=tuple(MODES), seeds=(0,))
    config.memory = memory

    async def play():
        async with EnvPool("toy", {}, workers=0, timeout_s=10) as pool:
            reader = BankReader(bank.view(), bank.embedder, memory)
            sources = {record.id: record.source_state for record in bank.view().records}
            prompts = Prompts("full", LengthCodec(), 4096, 3, "No memory applies.")
            return await evaluate(
                config, panels(), Parts(pool, prompts, Voices(), reader, sources, bank.digest), tmp_path / "eval", ABOUT
            )

    result = asyncio.run(play())
    assert files and files == {path: path.read_bytes() for path in files}
    assert result["bank"] == bank.digest() and all(record.usage.c_use == 0 for record in bank.records.values())
    assert result["results"]["valid_seen"]["memory"]["accepted"]["mean"] > 0.5


def test_results_in_the_layout_of_lm_evaluation_harness(finished):
    _, result = finished
    got = harness(result, "toy-policy")
    names = [f"toy_{panel}_{mode}" for panel in result["panels"] for mode in result["modes"]]
    assert list(got["results"]) == names == list(got["n-samples"]) == list(got["configs"])
    one, cell = got["results"]["toy_valid_unseen_none"], result["results"]["valid_unseen"]["none"]
    share = cell["success"]["mean"]
    assert one["success,none"] == share and one["steps_stderr,none"] == "N/A"
    assert one["success_stderr,none"] == pytest.approx((share * (1 - share) / 11) ** 0.5)
    assert got["n-samples"]["toy_valid_unseen_none"] == {"original": 12, "effective": 24}
    assert got["config"]["model_args"] == "pretrained=toy-policy"
