"""Models beside the policy: a reconstructor over HTTP, from a folder or from a script, and another verifier."""

import json
import random
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from stage_parts import overrides

from envs.toy import ToyEnv
from mh_train.config import ConfigError, compose
from mh_train.memory.judge_prompts import CRITERIA
from mh_train.run.metrics import read_metrics
from mh_train.stages import eval as evaluation
from mh_train.stages import grpo

ADVICE = "Look into the cupboard first."
SCRIPT = ["memory.trigger=always", "memory.use=external", "memory.reconstructor.engine.name=scripted"]


def advise(prompt: str, rng: random.Random) -> str:
    """A scripted reconstructor."""
    return ADVICE


def condemn(prompt: str, rng: random.Random) -> str:
    """A scripted verifier that likes nothing."""
    criteria = {name: {"score": 1, "rationale": "no", "evidence_span": ""} for name in CRITERIA}
    return json.dumps({"criteria": criteria, "label": "verified_fail", "failure_guard": "NONE"})


@pytest.fixture
def server():
    """An OpenAI-compatible chat server that always gives the same advice; `asked` keeps the messages it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.server.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"])
            choice = {"message": {"role": "assistant", "content": ADVICE}, "finish_reason": "stop"}
            data = json.dumps({"choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            """Stay silent."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.asked = []
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield http
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture
def run(trained, tmp_path) -> Path:
    """A copy of the trained run."""
    shutil.copytree(trained, tmp_path / "toy")
    shutil.rmtree(tmp_path / "toy" / "eval")
    shutil.rmtree(tmp_path / "toy" / "sft")
    return tmp_path / "toy"


def guidance(run: Path, mode: str) -> list[str]:
    """What the retrievals of a mode that found something ended in."""
    lines = (run / "eval" / "cells" / f"{ToyEnv.splits[-1]}.{mode}.0.jsonl").read_text().splitlines()[1:]
    return [one["guidance"] for line in lines for one in json.loads(line)["asked"] if one["records"]]


def test_a_server_rewrites_what_the_policy_retrieves_in_mode_external_only(run, server):
    options = f"{{url: 'http://127.0.0.1:{server.server_port}/v1', model: m}}"
    external = ["memory.trigger=always", f"+memory.reconstructor.engine.options={options}"]
    evaluation.main(compose(overrides(run.parent, "evaluate.modes=[memory,external]", *external)))
    assert set(guidance(run, "external")) == {ADVICE}
    assert ADVICE not in guidance(run, "memory")
    assert len(server.asked) == len(guidance(run, "external"))
    assert all(messages[-1]["role"] == "user" and messages[-1]["content"] for messages in server.asked)


def test_a_folder_rewrites_as_the_policy_would_when_it_is_the_policy(run):
    local = ["memory.reconstructor.engine.name=transformers", f"memory.reconstructor.model_path={run / 'model'}"]
    evaluation.main(compose(overrides(run.parent, "evaluate.modes=[memory,external]", "memory.trigger=always", *local)))
    assert guidance(run, "external") == guidance(run, "memory") != []


def test_training_with_others_learns_nothing_from_them(trained, tmp_path):
    shutil.copytree(trained / "sft", tmp_path / "toy" / "sft")
    judge = ["memory.verifier.source=engine", "memory.verifier.engine.name=scripted", "memory.outcome=verifier"]
    policies = {"memory.reconstructor": "advise", "memory.verifier": "condemn"}
    scripts = [f"+{key}.engine.options.policy=test_others:{name}" for key, name in policies.items()]
    snapshot = max((trained / "checkpoints").glob("update-*")) / "bank"
    more = [*SCRIPT, *judge, *scripts, "learn.updates=1", f"memory.start_from={snapshot}"]
    grpo.main(compose(overrides(tmp_path, *more)))
    (metrics,) = read_metrics(tmp_path / "toy" / "metrics.jsonl")
    assert metrics["memory/label_fail"] == 1 and metrics["memory/verifier_malformed"] == 0
    lines = (tmp_path / "toy" / "trajectories" / "update-00001.jsonl").read_text().splitlines()
    turns = [turn for line in lines for turn in json.loads(line)["turns"]]
    theirs = [turn for turn in turns if turn["kind"] == "reconstruct"]
    assert {turn["text"] for turn in theirs} == {ADVICE}
    assert metrics["learn/rows"] == len(turns) - len(theirs)


@pytest.mark.parametrize("engine", ["scripted", "api"])
def test_an_engine_without_the_policys_weights_is_not_trained(engine, tmp_path):
    with pytest.raises(ConfigError, match="holds no weights"):
        grpo.main(compose(overrides(tmp_path, f"engine={engine}")))
