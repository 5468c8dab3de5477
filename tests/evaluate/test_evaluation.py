"""Modes x panels x seeds on the toy environment: what is written, what is reused, what is refused."""

import asyncio
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from envs.base import Observation, Task
from envs.toy import ToyEnv
from mh_train.agent.loop import EpisodeSpec, run_episode
from mh_train.agent.prompts import Prompts
from mh_train.agent.types import MemoryHit
from mh_train.config.schema import MemoryConfig
from mh_train.engine.base import Completion, noise_key
from mh_train.evaluate.modes import mode_of
from mh_train.evaluate.results import compare_modes, summarise
from mh_train.evaluate.runner import Cell, evaluate, read_values
from mh_train.evaluate.statistics import EvaluationError, paired_bootstrap
from mh_train.evaluate.table import comparison_rows, markdown, result_rows, terminal

HITS = [
    MemoryHit(f"m-{colour}", f"the {colour} key was in the {place}", "You are in the hall.")
    for colour, place in {"red": "cupboard", "blue": "desk", "green": "drawer", "white": "desk"}.items()
]
ABOUT = {"versions": {"mh_train": "0"}, "model": "toy-expert", "temperature": 0.4, "horizon": 4}


@dataclass(frozen=True)
class ToyPanel:
    """The toy's tasks of one split."""

    name: str
    tasks: tuple[Task, ...]

    @property
    def hash(self):
        return f"{noise_key(*(task.id for task in self.tasks)):016x}"


class LengthCodec:
    """Prompts are as long as their text; nobody reads the ids here."""

    def encode(self, messages):
        return list(range(sum(len(message["content"].split()) for message in messages)))


class ToyMemory:
    """Finds what was learnt about a colour; nothing about black and yellow."""

    async def retrieve(self, query):
        return [hit for hit in HITS if hit.record_id.removeprefix("m-") in query.goal]


class Slot:
    """A toy environment in this process."""

    def __init__(self, task):
        self.env, self.task = ToyEnv(), task

    async def reset(self) -> Observation:
        return self.env.reset(self.task)

    async def step(self, action: str) -> Observation:
        return self.env.step(action)


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


def panels(n=12):
    return [ToyPanel(split, tuple(ToyEnv.tasks(split)[:n])) for split in ("valid_seen", "valid_unseen")]


def cells(modes=("memory", "none", "replay", "empty"), seeds=(0, 1), n=12):
    chosen = [mode_of(name, MemoryConfig()) for name in modes]
    return [Cell(mode, panel, seed) for panel in panels(n) for seed in seeds for mode in chosen]


class Player:
    """Plays cells for real and remembers which."""

    def __init__(self, lose=()):
        self.played, self.lose = [], set(lose)

    async def __call__(self, cell):
        self.played.append(cell.file)
        memory = cell.mode.wrap(ToyMemory(), {hit.record_id: hit.source_state for hit in HITS}, cell.seed)
        prompts = Prompts("full", LengthCodec(), 4096, 3, "No memory applies.")
        found = []
        for task in cell.panel.tasks:
            if task.id not in self.lose:
                spec = EpisodeSpec(
                    task.id,
                    "toy",
                    task.split,
                    task.id,
                    task.type,
                    0,
                    0,
                    ("eval", cell.seed, task.id),
                    horizon=4,
                    use=cell.mode.use.value,
                    trigger=cell.mode.trigger.value,
                    lowercase_actions=True,
                )
                speaker = ExpertSpeaker(noise_key(cell.seed, task.id))
                found.append(await run_episode(spec, Slot(task), speaker, prompts, memory))
        return found


def run(folder, chosen, player=None, digest=lambda: "bank-1", about=ABOUT):
    return asyncio.run(evaluate(chosen, player or Player(), Path(folder), about, digest))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eval")
    return folder, run(folder, cells())


def test_eval_json_names_panels_bank_versions_seeds_and_modes(finished):
    folder, result = finished
    assert json.loads((folder / "eval.json").read_text()) == result
    assert result["panels"]["valid_seen"] == {"hash": panels()[0].hash, "tasks": 12}
    assert (result["bank"], result["seeds"], result["versions"]) == ("bank-1", [0, 1], {"mh_train": "0"})
    assert list(result["modes"]) == ["memory", "none", "replay", "empty"]
    assert result["modes"]["replay"] == {"mode": "replay", "use": "replay", "trigger": "agentic"}


def test_summaries_hold_what_the_episodes_did(finished):
    _, result = finished
    memory, none, empty = (result["results"]["valid_unseen"][name] for name in ("memory", "none", "empty"))
    assert memory["success"]["mean"] > none["success"]["mean"]
    assert (none["retrievals"]["mean"], empty["retrievals"]["mean"], empty["empty"]["mean"]) == (0.0, 1.0, 1.0)
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
    run(tmp_path, cells())
    names = sorted(path.relative_to(folder) for path in folder.rglob("*.json*") if path.name != "latency.jsonl")
    assert len(names) == 17
    for name in names:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_finished_cells_are_not_played_again(tmp_path):
    first, second = Player(), Player()
    run(tmp_path, cells(seeds=(0,)), first)
    result = run(tmp_path, cells(seeds=(0, 1)), second)
    assert len(first.played) == 8 and len(second.played) == 8 and not set(first.played) & set(second.played)
    assert result["seeds"] == [0, 1]
    third = Player()
    assert run(tmp_path, cells(seeds=(0, 1)), third) == result and third.played == []


@pytest.mark.parametrize("change", ["model", "bank", "panel"])
def test_a_cell_of_other_settings_is_played_again(tmp_path, change):
    run(tmp_path, cells(seeds=(0,)))
    player = Player()
    if change == "model":
        run(tmp_path, cells(seeds=(0,)), player, about={**ABOUT, "model": "another"})
    elif change == "bank":
        run(tmp_path, cells(seeds=(0,)), player, digest=lambda: "bank-2")
    else:
        run(tmp_path, cells(seeds=(0,), n=6), player)
    assert len(player.played) == 8


def test_a_killed_evaluation_keeps_its_finished_cells(tmp_path):
    class Killed(Player):
        async def __call__(self, cell):
            if len(self.played) == 3:
                raise KeyboardInterrupt
            return await super().__call__(cell)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, cells(seeds=(0,)), Killed())
    assert not (tmp_path / "eval.json").exists()
    rest = Player()
    run(tmp_path, cells(seeds=(0,)), rest)
    assert len(rest.played) == 5


def test_a_bank_that_changes_is_an_error_and_its_cell_is_not_kept(tmp_path):
    digests = iter(["before", "after"])
    with pytest.raises(EvaluationError, match="bank changed"):
        run(tmp_path, cells(), digest=lambda: next(digests))
    assert not list(tmp_path.rglob("*.jsonl"))


def test_a_dropped_task_counts_as_a_failure_and_as_dropped(tmp_path):
    lost = panels()[0].tasks[0].id
    result = run(tmp_path, cells(modes=("memory",), seeds=(0,)), Player(lose=[lost]))
    cell = result["results"]["valid_seen"]["memory"]
    assert cell["dropped"] == 1 and cell["episodes"] == 12
    assert read_values(tmp_path, "valid_seen", "memory").values[lost] == 0.0


def test_an_empty_panel_is_refused(tmp_path):
    empty = replace(cells()[0], panel=ToyPanel("valid_seen", ()))
    with pytest.raises(EvaluationError, match="has no tasks"):
        run(tmp_path, [empty])


def test_two_evaluations_are_compared_task_by_task(finished, tmp_path):
    folder, result = finished
    run(tmp_path, cells(modes=("none",)))
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
    assert [table.row_count for table in terminal(result).renderables] == [8, 6]


def test_a_single_mode_and_seed_has_no_spread_and_no_comparison(tmp_path):
    result = run(tmp_path, cells(modes=("memory",), seeds=(0,)))
    assert result["comparisons"] == [] and "±" not in markdown(result)
    assert result["results"]["valid_seen"]["memory"]["success"]["std"] is None


def row(task, success, kind="pick", **numbers):
    names = "score steps turns retrievals accepted rejected empty replayed malformed inadmissible truncated shortened"
    return {
        "task": task,
        "type": kind,
        "dropped": False,
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
