"""Settings of trackers and launchers, and the root that holds all settings of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mh_train.config.schema.evaluate import EvalConfig, StreamConfig
from mh_train.config.schema.learn import LearnConfig, SftConfig
from mh_train.config.schema.memory import MemoryConfig
from mh_train.config.schema.policy import (
    DataConfig,
    EngineConfig,
    EnvConfig,
    ModelConfig,
    PromptConfig,
    RewardConfig,
    RolloutConfig,
)


@dataclass
class TrackConfig:
    wandb: bool = False  # log to Weights & Biases
    wandb_project: str = "mh_train"  # its project
    tensorboard: bool = False  # write TensorBoard files to the run folder
    hub: str = ""  # owner/name on the Hugging Face hub that the final model is pushed to (--push-to-hub)


@dataclass
class LauncherConfig:
    name: str = "here"  # here (this process) | local (processes of this machine) | slurm
    nodes: int = 1  # machines
    gpus: int = 1  # processes per node: one per GPU; without GPUs, that many gloo processes
    gpu_memory_gb: float = 80.0  # of one GPU; only `mh-train plan` asks
    strategy: str = "ddp"  # configs/accelerate/<strategy>.yaml: ddp | fsdp2 | zero2 | zero3
    port: int = 0  # where the processes meet; 0 = one that follows from the run's name
    minutes: int = 1440  # slurm: time limit of a job; it continues in another one
    requeues: int = 10  # slurm: how often a job that ran into its time limit may continue
    cpus: int = 16  # slurm: cores per node
    memory_gb: float = 0.0  # slurm: memory per node; 0 = the partition's default
    partition: str = ""  # slurm: partition; empty: the default one
    gres: str = "gpu"  # slurm: the generic resource that a process needs one of; empty: none
    setup: list[str] = field(default_factory=list)  # slurm: shell lines before the run, such as module loads
    options: dict[str, Any] = field(default_factory=dict)  # slurm: more sbatch options by their long name


@dataclass
class RunConfig:
    name: str = "run"  # run folder is <root>/<name>
    root: str = "runs"  # folder of all runs
    seed: int = 0  # of everything that is drawn
    threads: int = 0  # torch threads; 0 = torch's default
    env: EnvConfig = field(default_factory=EnvConfig)
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    sft: SftConfig = field(default_factory=SftConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    evaluate: EvalConfig = field(default_factory=EvalConfig)
    stream: StreamConfig = field(default_factory=StreamConfig)
    track: TrackConfig = field(default_factory=TrackConfig)
    launcher: LauncherConfig = field(default_factory=LauncherConfig)
