"""A real SLURM of one node in a folder: munged, slurmctld and slurmd, started and stopped by a test."""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NEEDED = ("sbatch", "slurmctld", "slurmd", "munged")
CONF = """ClusterName=here
SlurmctldHost={host}
SlurmctldPort={port}
SlurmdPort={node_port}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SchedulerParameters=sched_interval=2,batch_sched_delay=0
ReturnToService=2
KillWait=5
MailProg=/bin/true
NodeName={host} CPUs={cpus} State=UNKNOWN
PartitionName=only Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why SLURM cannot be started here; empty when it can."""
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed (Debian: apt-get install slurm-wlm munge)"
    return "" if os.geteuid() == 0 else "slurmd and slurmctld need root"


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which sbatch, squeue, scontrol and scancel talk to the SLURM that runs inside the block."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    host = socket.gethostname().split(".")[0]
    port, node_port = _free_port(), _free_port()
    text = CONF.format(folder=folder, host=host, port=port, node_port=node_port, cpus=os.cpu_count())
    (folder / "slurm.conf").write_text(text)
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    os.chmod(folder / "munge.key", 0o400)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    socket_file = f"--socket={folder}/munge.socket"
    commands = [
        ["munged", "--foreground", "--force", socket_file, *files],
        ["slurmctld", "-D", "-c", "-L", str(folder / "slurmctld.log")],
        ["slurmd", "-D", "-c", "-L", str(folder / "slurmd.log")],
    ]
    running = []
    with open(folder / "daemons.log", "wb") as log:
        try:
            for command in commands:
                running.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
                time.sleep(1)
            wait_for(lambda: "idle" in _sinfo(environment), 60, "the node to be idle")
            yield environment
        finally:
            subprocess.run(["scancel", "--me"], env=environment, check=False, capture_output=True)
            for process in reversed(running):
                process.terminate()
                process.wait(30)


def wait_for(reached: object, seconds: float, what: str) -> None:
    """Until `reached()`; an assertion that names `what` when it takes longer."""
    deadline = time.monotonic() + seconds
    while not reached():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(0.2)


def _sinfo(environment: dict[str, str]) -> str:
    done = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False)
    return done.stdout


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
