"""Settings of the cold start and of GRPO."""

from __future__ import annotations

from dataclasses import dataclass, field

from mh_train.config.schema.choices import Estimator, FlatGroups, Select


@dataclass
class CheckpointConfig:
    every: int = 10  # updates
    keep_last: int = 2  # newest checkpoints kept
    keep_every: int = 0  # also keep every n-th; 0 = none
    select: Select = Select.last  # which one evaluation and the exported model take; best needs evaluate.every


@dataclass
class LearnConfig:
    updates: int = 200  # GRPO updates of the run
    estimator: Estimator = Estimator.grpo  # how rewards become advantages
    estimator_function: str = ""  # "module:function" of an estimator of yours, used instead of `estimator`
    step_weight: float = 1.0  # gigpo: weight of the step-level part
    step_discount: float = 0.95  # gigpo: gamma of the returns that visits of one state are compared by
    flat_groups: FlatGroups = FlatGroups.keep  # what groups without outcome spread contribute
    lr: float = 1e-6  # AdamW's, constant
    betas: list[float] = field(default_factory=lambda: [0.9, 0.999])  # AdamW's
    weight_decay: float = 0.0  # AdamW's
    clip_low: float = 0.2  # epsilon below 1
    clip_high: float = 0.2  # epsilon above 1; larger than clip_low is clip-higher
    dual_clip: float = 0.0  # c > 1 bounds the loss of negative advantages; 0 = off
    kl: float = 0.01  # beta of the k3 KL to the frozen start policy; 0 drops the reference pass
    entropy: float = 0.0  # bonus weight
    grad_clip: float = 1.0  # largest gradient norm
    minibatch_turns: int = 256  # turn rows per optimizer step
    token_budget: int = 16384  # packed tokens per micro-batch and rank
    train_reconstruct: bool = True  # reconstruct turns get gradients
    importance: str = "none"  # none | token: truncated trainer/sampler ratio on every token | turn: far turns masked
    importance_cap: float = 2.0  # largest ratio of `importance`; for turns of their geometric mean, either way
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)


@dataclass
class SftConfig:
    data: str = ""  # JSONL of the `data` stage or of the user; empty: made from the environment's expert
    trajectories: int = 200  # expert episodes played
    summaries: int = 200  # trajectory -> memory pairs
    epochs: float = 2.0  # passes over the rows
    lr: float = 1e-5  # AdamW's, cosine with warm-up
    batch: int = 2  # effective batch size
    max_tokens: int = 8192  # longer rows are left out and counted
    ask_share: float = 0.9  # expert episodes that ask memory; fewer leave asking for rewards to teach
    reject_share: float = 0.2  # expert reconstructions that must answer <EMPTY>
    expert_noise: float = 0.0  # share of random expert actions
