"""Starts the processes of a run: on this machine, or as a SLURM job that continues by itself.

Why: the configuration is composed once, here; every process then loads the resolved `launch.yaml` of the run folder, so
that no two of them can disagree. Invariants: whatever is launched is the command that a person could type; a job that
is preempted or runs out of time is queued again and resumes from the run's last checkpoint.
Run: `mh-train grpo experiment=... launcher=local launcher.gpus=8`, `... launcher=slurm launcher.nodes=2`.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mh_train.config import ConfigError, RunConfig, to_yaml
from mh_train.config.compose import config_dir
from mh_train.config.schema import LauncherConfig
from mh_train.extras import install
from mh_train.files import write_atomic
from mh_train.run.folder import RunFolder
from mh_train.run.reuse import alone

FIRST_PORT, PORTS = 20000, 12000


def launch(stage: str, config: RunConfig) -> int:
    """Start the run as `config.launcher` says; the exit code of a local run, 0 once a job is queued.

    Raises `ConfigError` when the run folder cannot be written or SLURM is not there."""
    with alone(config):  # the processes that are started hold the folder themselves
        folder = RunFolder.open(config)
        resolved = folder.path / "launch.yaml"
        write_atomic(resolved, to_yaml(config))
    processes = Processes(stage, str(resolved.resolve()), config.launcher, _port(folder.path, config.launcher))
    if config.launcher.name == "local":
        return subprocess.run(processes.command(0, "127.0.0.1"), check=False).returncode
    job = submit(processes, config, folder.path / "slurm")
    print(f"slurm    job {job.job_id} ({config.name}); log: {job.paths.stdout}; stop it: scancel {job.job_id}")
    return 0


@dataclass
class Processes:
    """The processes of one run; a call starts those of one node and waits for them (submitit runs it there)."""

    stage: str
    config: str
    launcher: LauncherConfig
    port: int

    def command(self, node: int, address: str) -> list[str]:
        """What starts this node's processes; `address` is node 0's."""
        launcher = self.launcher
        job = ["-m", "mh_train.cli", self.stage, "--config", self.config]
        if shutil.which("nvidia-smi") is None:  # accelerate starts a single process without GPUs
            place = [f"--nnodes={launcher.nodes}", f"--node_rank={node}", f"--nproc_per_node={launcher.gpus}"]
            meet = [f"--master_addr={address}", f"--master_port={self.port}"]
            return [sys.executable, "-m", "torch.distributed.run", *place, *meet, *job]
        file = config_dir() / "accelerate" / f"{launcher.strategy}.yaml"
        place = [f"--num_machines={launcher.nodes}", f"--machine_rank={node}"]
        place += [f"--num_processes={launcher.nodes * launcher.gpus}", "--num_cpu_threads_per_process=1"]
        meet = [f"--main_process_ip={address}", f"--main_process_port={self.port}"]
        start = [sys.executable, "-m", "accelerate.commands.launch", f"--config_file={file}"]
        return [*start, *place, *meet, *job]

    def __call__(self) -> None:
        """Inside a job: start this node's processes. Raises `RuntimeError` when they fail, so that the job fails."""
        import submitit

        place = submitit.JobEnvironment()
        command = self.command(place.node, place.hostnames[0])
        done = subprocess.run(command, check=False, preexec_fn=_leave_signal_to_submitit)
        if done.returncode:
            raise RuntimeError(f"The run on {socket.gethostname()} ended with exit code {done.returncode}.")

    def checkpoint(self) -> Any:
        """What is queued when the job is preempted or out of time: the same, which resumes."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


def submit(processes: Processes, config: RunConfig, folder: Path) -> Any:
    """Queue a job; submitit's handle on it. Raises `ConfigError` without submitit or SLURM."""
    launcher = config.launcher
    try:
        import submitit
    except ImportError as error:
        raise ConfigError(f"launcher=slurm needs submitit: {install('slurm')}.") from error
    if shutil.which("sbatch") is None:
        raise ConfigError("launcher=slurm needs SLURM's sbatch on this machine; use launcher=local.")
    executor = submitit.SlurmExecutor(folder=folder, max_num_timeout=launcher.requeues)
    executor.update_parameters(
        job_name=config.name.replace("/", "."),
        nodes=launcher.nodes,
        ntasks_per_node=1,
        cpus_per_task=launcher.cpus,
        time=launcher.minutes,
        signal_delay_s=120,
        srun_args=[f"--cpus-per-task={launcher.cpus}"],  # srun does not take it from the job since SLURM 22.05
        setup=list(launcher.setup),
        additional_parameters=_options(launcher),
    )
    try:
        return executor.submit(processes)
    except submitit.core.utils.FailedJobError as error:
        raise ConfigError(f"SLURM refused the job: {str(error).strip()}; correct the launcher.* settings.") from error


def _options(launcher: LauncherConfig) -> dict[str, Any]:
    """sbatch's own options; `requeue` so that a node that fails gives the job back to the queue."""
    options: dict[str, Any] = {"requeue": True}
    if launcher.gres:
        options["gres"] = f"{launcher.gres}:{launcher.gpus}"
    if launcher.partition:
        options["partition"] = launcher.partition
    if launcher.memory_gb:
        options["mem"] = f"{launcher.memory_gb:g}G"
    return options | launcher.options


def _leave_signal_to_submitit() -> None:
    """SLURM's warning reaches all processes of a job; only submitit's acts on it, the others train until the end."""
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)


def _port(folder: Path, launcher: LauncherConfig) -> int:
    """Runs that share a machine must not meet at the same port; equal runs always do."""
    return launcher.port or FIRST_PORT + zlib.crc32(str(folder.resolve()).encode()) % PORTS
