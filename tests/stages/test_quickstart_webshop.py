"""The WebShop quickstart in small: every stage runs on a mini shop, pages become one token per stock phrase."""

import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from mh_train.config import compose
from mh_train.engine.codec import HFCodec
from mh_train.engine.load import load_tokenizer
from mh_train.report.notes import metric_notes
from mh_train.run.metrics import read_metrics
from mh_train.stages import run

SMALL = (
    *("data.options.products=30", "env.workers=0", "threads=1", "memory.milvus.enabled=false"),
    *("model.tiny.hidden=64", "model.tiny.heads=2", "model.tiny.layers=1"),
    *("sft.trajectories=24", "sft.summaries=4", "sft.epochs=1", "rollout.tasks=2", "rollout.group=2"),
    *(
        "learn.updates=2",
        "learn.minibatch_turns=16",
        "evaluate.modes=[memory,none]",
        "evaluate.limit=2",
        "env.horizon=7",
    ),
)


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    """The run folder after all stages."""
    root = tmp_path_factory.mktemp("webshop")
    shop = (f"data.root={root / 'shop'}", f"env.options.store={root / 'shop' / 'store'}")
    run.main(compose(["experiment=quickstart_webshop", f"root={root}", *shop, *SMALL]))
    return root / "quickstart_webshop"


def test_data_cold_start_training_and_evaluation_run_on_the_mini_shop(played):
    assert [row["update"] for row in read_metrics(played / "metrics.jsonl")] == [1, 2]
    for folder in ("eval", "eval/cold_start"):
        result = json.loads((played / folder / "eval.json").read_text())
        assert "test" in json.dumps(result)


def test_everything_that_a_governed_run_logs_is_explained(played):
    logged = {name for row in read_metrics(played / "metrics.jsonl") for name in row} - {"update"}
    assert [name for name in sorted(logged) if not any(fnmatchcase(name, told) for told in metric_notes())] == []


def test_cold_start_shows_the_expert_asking_rewriting_buying_and_remembering(played):
    rows = [json.loads(line) for line in (played / "sft" / "rows.jsonl").read_text().splitlines()]
    assert {row["kind"] for row in rows} == {"act", "reconstruct", "distill"}
    answers = [row["messages"][-1]["content"] for row in rows]
    for part in ("<retrieve_memory>", "click[features]", "click[buy now]", '"memory":"'):
        assert any(part in answer for answer in answers), part


def test_stock_phrases_keep_prompts_short(played):
    """A product page with its buttons, options and actions costs fewer tokens than its admissible actions alone."""
    codec = HFCodec(load_tokenizer(str(played / "sft" / "model")))
    rows = [json.loads(line) for line in (played / "sft" / "rows.jsonl").read_text().splitlines()]
    acts = [row["messages"][:-1] for row in rows if row["kind"] == "act"]
    assert max(len(codec.encode(messages)) for messages in acts) < 150
    assert codec.encode_text("click[buy now]") and len(codec.encode_text("click[buy now]")) == 1
