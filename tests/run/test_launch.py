"""Launching: what is started, and a real SLURM job that is preempted and continues by itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import slurm_here

from mh_train.config import ConfigError, compose, load
from mh_train.run.launch import Processes, launch, submit

STAGES = Path(__file__).resolve().parents[1] / "stages"
sys.path.insert(0, str(STAGES))  # the scripted policy of the training tests
from talker import SETTINGS, make_model  # noqa: E402


def place(*words: str) -> Processes:
    return Processes(
        "grpo", "/runs/x/launch.yaml", compose(["experiment=toy", "engine=scripted", *words]).launcher, 29500
    )


def test_without_gpus_torchrun_starts_a_node(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    command = place("launcher=slurm", "launcher.nodes=2", "launcher.gpus=3").command(1, "node-a")
    assert command[1:7] == [
        *("-m", "torch.distributed.run", "--nnodes=2", "--node_rank=1", "--nproc_per_node=3", "--master_addr=node-a")
    ]
    assert command[-5:] == ["-m", "mh_train.cli", "grpo", "--config", "/runs/x/launch.yaml"]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2", "zero2", "zero3"])
def test_with_gpus_accelerate_starts_all_processes_of_all_nodes(monkeypatch, strategy: str):
    from accelerate.commands.config.config_args import load_config_from_file

    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    words = ("launcher=slurm", "launcher.nodes=2", "launcher.gpus=8", f"launcher.strategy={strategy}")
    command = place(*words).command(1, "node-a")
    assert {"--num_machines=2", "--machine_rank=1", "--num_processes=16", "--main_process_ip=node-a"} <= set(command)
    file = next(word.split("=", 1)[1] for word in command if word.startswith("--config_file="))
    assert load_config_from_file(file).mixed_precision == "no"


def test_runs_of_one_machine_meet_at_different_ports(tmp_path, monkeypatch):
    seen: list[int] = []
    monkeypatch.setattr(Processes, "command", lambda self, node, address: seen.append(self.port) or ["true"])
    for name in ("a", "b", "a"):
        assert launch("grpo", compose(["experiment=toy", f"root={tmp_path}", f"name={name}", "launcher=local"])) == 0
    assert seen[0] == seen[2] != seen[1]
    assert load(tmp_path / "a" / "launch.yaml").name == "a"


def test_slurm_that_is_not_there_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs SLURM's sbatch.*launcher=local"):
        submit(place("launcher=slurm"), compose(["experiment=toy"]), tmp_path)


@pytest.mark.skipif(slurm_here.missing() != "", reason=f"no SLURM: {slurm_here.missing()}")
def test_a_preempted_slurm_job_continues_by_itself(tmp_path, monkeypatch):
    make_model(tmp_path / "toy" / "sft" / "model")
    small = ["rollout.tasks=2", "rollout.group=2", "learn.updates=3", "learn.minibatch_turns=8"]
    words = [
        "learn.checkpoint.every=1",
        "launcher=slurm",
        "launcher.gpus=1",
        "launcher.cpus=1",
        "launcher.gres=",
        "launcher.minutes=30",
    ]
    config = compose(["experiment=toy", f"root={tmp_path}", *small, *words, *SETTINGS])
    run = tmp_path / "toy"
    with slurm_here.slurm(tmp_path / "slurm") as environment:
        for name, value in {**environment, "PYTHONPATH": str(STAGES), "OMP_NUM_THREADS": "1"}.items():
            monkeypatch.setenv(name, value)
        assert launch("grpo", config) == 0
        slurm_here.wait_for(lambda: list((run / "checkpoints").glob("update-*")), 300, "the first checkpoint")
        subprocess.run(["scancel", "--me", "--signal=USR2"], check=True)  # SLURM's warning before it preempts
        ended = lambda: subprocess.run(["squeue", "-h"], capture_output=True, check=True).stdout == b""  # noqa: E731
        slurm_here.wait_for(ended, 300, "the end of the job")
    log = "".join(path.read_text() for path in (run / "slurm").glob("*.out"))
    assert "continues after update" in log
    assert [json.loads(line)["update"] for line in (run / "metrics.jsonl").open()] == [1, 2, 3]
    assert (run / "model" / "model.safetensors").is_file()
