"""Settings of the environment, the policy, its engine and how the two play episodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from mh_train.config.schema.choices import Judging


@dataclass
class EnvConfig:
    name: str = MISSING  # registered environment
    options: dict[str, Any] = field(default_factory=dict)  # passed to the environment class
    train_split: str = "train"  # split whose tasks are trained on
    horizon: int = 50  # environment steps per episode
    history: int = 3  # w: (observation, action) pairs in the prompt
    prompt_tokens: int = 2048  # longest prompt; longer ones are shortened and counted
    completion_tokens: int = 512  # longest completion
    workers: int = 2  # worker processes; 0 runs environments in this process
    timeout_s: float = 60.0  # per environment call; a hung worker is replaced


@dataclass
class DataConfig:
    maker: str = ""  # "module:function" that makes the data at `root`; empty: the data exists already
    root: str = ""  # where it lies
    options: dict[str, Any] = field(default_factory=dict)  # keyword arguments of the maker


@dataclass
class TinyConfig:
    hidden: int = 128  # width
    layers: int = 2  # transformer layers
    heads: int = 4  # attention heads
    intermediate: int = 256  # width of the feed-forward layer
    context: int = 2048  # longest prompt + completion, in tokens
    phrases: list[str] = field(default_factory=list)  # word sequences that become one token


@dataclass
class LoraConfig:
    enabled: bool = False  # train an adapter instead of all weights
    r: int = 16  # rank
    alpha: int = 32  # scale: the adapter is multiplied by alpha / r
    dropout: float = 0.0  # on the adapter's input
    target_modules: list[str] = field(
        default_factory=lambda: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    )  # layers that get an adapter
    quantize: str = ""  # nf4: the frozen base in 4 bits (QLoRA; one CUDA GPU per process and bitsandbytes)


@dataclass
class ModelConfig:
    path: str = MISSING  # HF folder or hub id; "tiny" builds the small policy from `tiny`
    dtype: str = "bfloat16"  # float32 | bfloat16 | float16
    verifier: Judging = Judging.policy  # who judges episodes in memory=combined; runtime_status: too small to verify
    gradient_checkpointing: bool = False  # less memory for about a third more compute
    tiny: TinyConfig = field(default_factory=TinyConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)


@dataclass
class EngineConfig:
    # transformers | vllm | vllm_server | api | scripted | simulated | "module:Class" of yours
    name: str = "transformers"
    max_batch: int = 128  # sequences decoded together
    fixed_order: bool = True  # wait for every live episode before a batch, so that runs repeat bit for bit
    probe_tolerance: float = 0.0  # nats between engine and trainer after a weight update; 0 = by model.dtype
    options: dict[str, Any] = field(default_factory=dict)  # passed to the engine


@dataclass
class PromptConfig:
    preset: str = "full"  # full | compact | release (official checkpoints)
    # what stands in for guidance when memory was asked and nothing came of it
    self_reasoning: str = "No stored memory applies here; rely on the observation and your own reasoning."


@dataclass
class RolloutConfig:
    tasks: int = 16  # tasks per update
    group: int = 8  # G: trajectories per task
    temperature: float = 1.0  # of sampling in training
    top_p: float = 1.0  # must be 1 in training
    top_k: int = 0  # must be 0 (off) in training
    retries: int = 2  # fresh attempts of an episode whose environment failed, then its group is dropped
    concurrency: int = 0  # episodes at once; 0 = all
    max_staleness: int = 0  # updates that generation may be behind the learner, 0 to 4; 0 = strictly on-policy


@dataclass
class RewardConfig:
    success: float = 10.0  # outcome reward of a won episode
    format_weight: float = 0.1  # weight of the format reward, which lies in [0, 1]
    min_retrievals: int = 1  # fewer lose the retrieval mark of the format reward
    max_retrievals: int = 5  # more lose it
    english: bool = True  # give the format mark for text in Latin script
