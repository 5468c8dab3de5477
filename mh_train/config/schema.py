"""Every setting of a run, as dataclasses: the one schema that YAML files, the command line and the rooms share.

Why: a typo or a wrong type must fail before anything is loaded. Each field's comment is its documentation; defaults are
the papers' values (SPEC). Invariant: only plain types, so that a resolved config is a YAML file and nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from omegaconf import MISSING


class Use(str, Enum):
    """What happens to retrieved records (`memory.use`)."""

    reconstruct = "reconstruct"
    replay = "replay"
    none = "none"
    external = "external"


class Trigger(str, Enum):
    """Who decides to retrieve (`memory.trigger`)."""

    agentic = "agentic"
    always = "always"
    off = "off"


class Estimator(str, Enum):
    """Advantage estimators (`learn.estimator`)."""

    grpo = "grpo"
    rloo = "rloo"
    dr_grpo = "dr_grpo"


class Writer(str, Enum):
    """Who words new memories (`memory.writer`)."""

    distill = "distill"  # the policy's {"situation", "memory"} pairs (MemHarness)
    induce = "induce"  # typed candidates with evidence spans (MemGuard)


class Outcome(str, Enum):
    """What usage counts as a success (`memory.outcome`)."""

    environment = "environment"
    verifier = "verifier"  # no hidden label ever reaches the bank


class Judging(str, Enum):
    """Who scores trajectories (`memory.verifier.source`)."""

    off = "off"
    policy = "policy"
    engine = "engine"  # another model, `memory.verifier.engine` (an OpenAI-compatible server: name=api)
    runtime_status = "runtime_status"  # no model: only what the agent saw


class FlatGroups(str, Enum):
    """What groups without outcome spread contribute (`learn.flat_groups`)."""

    keep = "keep"
    drop = "drop"
    outcome_only = "outcome_only"


@dataclass
class EnvConfig:
    name: str = MISSING  # registered environment
    options: dict[str, Any] = field(default_factory=dict)  # passed to the environment class
    train_split: str = "train"
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
    hidden: int = 128
    layers: int = 2
    heads: int = 4
    intermediate: int = 256
    context: int = 2048
    phrases: list[str] = field(default_factory=list)  # word sequences that become one token


@dataclass
class LoraConfig:
    enabled: bool = False
    r: int = 16
    alpha: int = 32
    dropout: float = 0.0
    target_modules: list[str] = field(
        default_factory=lambda: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    )


@dataclass
class ModelConfig:
    path: str = MISSING  # HF folder or hub id; "tiny" builds the small policy from `tiny`
    dtype: str = "bfloat16"
    gradient_checkpointing: bool = False
    tiny: TinyConfig = field(default_factory=TinyConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)


@dataclass
class EngineConfig:
    name: str = "transformers"  # transformers | api | scripted | simulated
    max_batch: int = 128  # sequences decoded together
    fixed_order: bool = True  # wait for every live episode before a batch, so that runs repeat bit for bit
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class PromptConfig:
    preset: str = "full"  # full | compact
    self_reasoning: str = "No stored memory applies here; rely on the observation and your own reasoning."


@dataclass
class RolloutConfig:
    tasks: int = 16  # tasks per update
    group: int = 8  # G: trajectories per task
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    retries: int = 2  # fresh attempts of an episode whose environment failed, then its group is dropped
    concurrency: int = 0  # episodes at once; 0 = all


@dataclass
class RewardConfig:
    success: float = 10.0
    format_weight: float = 0.1
    min_retrievals: int = 1
    max_retrievals: int = 5
    english: bool = True


@dataclass
class EmbedderConfig:
    name: str = "wordllama"  # bge_m3 | sentence_transformers | wordllama | hashing
    path: str = ""  # folder or hub id where the embedder needs one
    device: str = "cpu"
    batch: int = 64
    dim: int = 256  # only for `hashing`


@dataclass
class DistillConfig:
    fraction: float = 0.5  # share of trajectories kept, balanced between success and failure
    per_trajectory: int = 1  # num_memories
    temperature: float = 0.6
    max_tokens: int = 512
    prompt_tokens: int = 12288  # longer trajectories keep their head and tail
    min_steps: int = 1  # shorter trajectories are not distilled


@dataclass
class DedupConfig:
    write: float | None = None  # skip a new record above this cosine (same environment)
    read: float | None = None  # drop a hit above this cosine to a better hit
    pool: int = 20  # candidates before read-time dedup


@dataclass
class PruneConfig:
    every: int = 20  # updates
    utility: float = 0.3  # prune s < utility ...
    min_uses: int = 3  # ... once c_use reached this
    reward_prior: bool = False  # smooth s towards the verifier's R instead of 1/2


@dataclass
class MilvusConfig:
    enabled: bool = True
    uri: str = ""  # empty: Milvus Lite inside the run folder; else http://host:19530
    token: str = ""
    collection: str = "memories"


@dataclass
class VerifierConfig:
    source: Judging = Judging.off
    scale: int = 5  # G: score tokens 1..G
    weights: list[float] = field(default_factory=lambda: [1.0, 1.0, 1.0, 1.0])  # w_j of the criteria, normalised
    views: int = 3  # most views of one trajectory; 1 = never verified again
    low: float = 0.45  # gamma_low of the uncertainty band
    high: float = 0.65  # gamma_high
    taper: float = 0.10  # delta_b: how far beside the band a reward still counts as near it
    alpha: float = 0.5  # share of boundary proximity in u
    repeat_above: float = 0.55  # eta_verify: verify again above this u
    mask_status: bool = False  # hide the runtime status from the verifier
    max_tokens: int = 768
    prompt_tokens: int = 12288  # longer trajectories keep their head and tail
    engine: EngineConfig = field(default_factory=lambda: EngineConfig(name="api"))  # of source=engine
    model_path: str = ""  # of source=engine with a local engine: HF folder or hub id


@dataclass
class AdmissionConfig:
    enabled: bool = False  # false: every candidate becomes active
    reward: float = 0.70  # active from this R ...
    confidence: float = 0.60  # ... and this c on
    reject_below: float = 0.45  # candidates below this R are not even provisional
    guards: bool = True  # keep failure-avoidance memories
    use_reward: bool = True  # false: the {label, confidence} descriptor decides, here, in retrieval and in conflicts


@dataclass
class ScoringConfig:
    enabled: bool = False  # false: rank by relevance alone
    positive: list[float] = field(default_factory=lambda: [0.40, 0.25, 0.10, 0.10, 0.15])  # r, q, p, rec, use
    risk: list[float] = field(default_factory=lambda: [0.20, 0.15, 0.30])  # cf, stale, ver
    guard: list[float] = field(default_factory=lambda: [0.45, 0.30, 0.25])  # r, q, p
    guard_risk: list[float] = field(default_factory=lambda: [0.15, 0.15, 0.25])  # cf, stale, ovr
    pool: int = 20  # candidates of each path before filtering
    summaries: int = 2
    guards: int = 2
    min_relevance: float = 0.05  # hard filter
    min_confidence: float = 0.50  # hard filter
    guard_relevance: float = 0.62  # eta_guard
    guard_confidence: float = 0.70


@dataclass
class LifecycleConfig:
    enabled: bool = False  # false: append only
    merge: float = 0.86  # similarity above which the same advice is one record
    conflict: float = 0.72  # similarity above which different advice is a conflict
    margin: float = 0.10  # rewards or confidences closer than this do not archive a conflict's loser
    summarise: float = 0.60  # similarity that holds a cluster of successes together
    summarise_from: int = 3  # smallest cluster
    stale_after: int = 0  # updates without use after which a record is archived; 0 = never
    min_quality: float = 0.35  # active records below are archived


@dataclass
class MemoryConfig:
    use: Use = Use.reconstruct
    trigger: Trigger = Trigger.agentic
    k: int = 3
    max_retrievals: int = 5
    retrieval_costs_step: bool = False
    dropout: float = 0.0  # share of training groups that meet an empty bank
    exclude_same_task: bool = False  # in training, hide records distilled from the very task
    hybrid: bool = False  # rank by BM25 + cosine instead of cosine alone
    lexical_weight: float = 0.5  # share of BM25 in the hybrid relevance
    budget: int = 384  # active records at most
    write: bool = True  # distil and insert after each rollout
    start_from: str = ""  # bank snapshot folder to begin with
    embedder: EmbedderConfig = field(default_factory=EmbedderConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)
    dedup: DedupConfig = field(default_factory=DedupConfig)
    prune: PruneConfig = field(default_factory=PruneConfig)
    writer: Writer = Writer.distill
    outcome: Outcome = Outcome.environment
    noise: float = 0.0  # share of verifier labels corrupted before admission (robustness study)
    verifier: VerifierConfig = field(default_factory=VerifierConfig)
    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    scoring: ScoringConfig = field(default_factory=ScoringConfig)
    lifecycle: LifecycleConfig = field(default_factory=LifecycleConfig)
    milvus: MilvusConfig = field(default_factory=MilvusConfig)


@dataclass
class CheckpointConfig:
    every: int = 10  # updates
    keep_last: int = 2
    keep_every: int = 0  # also keep every n-th; 0 = none


@dataclass
class LearnConfig:
    updates: int = 200
    estimator: Estimator = Estimator.grpo
    flat_groups: FlatGroups = FlatGroups.keep
    lr: float = 1e-6
    betas: list[float] = field(default_factory=lambda: [0.9, 0.999])
    weight_decay: float = 0.0
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float = 0.0  # c > 1 bounds the loss of negative advantages; 0 = off
    kl: float = 0.01  # beta of the k3 KL to the frozen start policy; 0 drops the reference pass
    entropy: float = 0.0  # bonus weight
    grad_clip: float = 1.0
    minibatch_turns: int = 256
    token_budget: int = 16384  # packed tokens per micro-batch and rank
    train_reconstruct: bool = True
    importance: str = "none"  # none | token: truncated sampler/trainer ratio on every token
    importance_cap: float = 2.0
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)


@dataclass
class SftConfig:
    data: str = ""  # JSONL of the `data` stage or of the user; empty: made from the environment's expert
    trajectories: int = 200
    summaries: int = 200
    epochs: float = 2.0
    lr: float = 1e-5
    batch: int = 2  # effective batch size
    max_tokens: int = 8192
    reject_share: float = 0.2  # expert reconstructions that must answer <EMPTY>
    expert_noise: float = 0.0  # share of random expert actions


@dataclass
class EvalConfig:
    panels: list[str] = field(default_factory=lambda: ["valid_seen", "valid_unseen"])
    limit: int = 0  # first n tasks of each panel; 0 = all
    modes: list[str] = field(default_factory=lambda: ["memory", "none", "replay"])
    seeds: list[int] = field(default_factory=lambda: [0])
    temperature: float = 0.4
    bank: str = ""  # snapshot folder; empty: the checkpoint's own


@dataclass
class TrackConfig:
    wandb: bool = False
    wandb_project: str = "mh_train"
    tensorboard: bool = False


@dataclass
class RunConfig:
    name: str = "run"  # run folder is <root>/<name>
    root: str = "runs"
    seed: int = 0
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
    track: TrackConfig = field(default_factory=TrackConfig)
