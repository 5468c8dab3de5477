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

    reconstruct = "reconstruct"  # the policy rewrites them for its state, or rejects them
    replay = "replay"  # they go into the act prompt as they are
    none = "none"  # there is no memory
    external = "external"  # another model rewrites them; its tokens are never trained


class Trigger(str, Enum):
    """Who decides to retrieve (`memory.trigger`)."""

    agentic = "agentic"  # the policy asks
    always = "always"  # every step; the observation is the query
    off = "off"  # nobody


class Estimator(str, Enum):
    """Advantage estimators (`learn.estimator`)."""

    grpo = "grpo"  # (R - mean) / std over the group
    rloo = "rloo"  # R - mean of the others
    dr_grpo = "dr_grpo"  # R - mean
    gigpo = "gigpo"  # GRPO plus the same among visits of one state
    reinforce_pp = "reinforce_pp"  # (R - mean) / std over the whole update


class Writer(str, Enum):
    """Who words new memories (`memory.writer`)."""

    distill = "distill"  # the policy's {"situation", "memory"} pairs (MemHarness)
    induce = "induce"  # typed candidates with evidence spans (MemGuard)
    exemplar = "exemplar"  # whole episodes as worked examples, no model (Synapse)
    workflow = "workflow"  # the routines of episodes, no model (AWM)


class Manager(str, Enum):
    """Who decides what becomes of a new memory (`memory.manager`)."""

    rules = "rules"  # deduplication and governance
    mem0 = "mem0"  # a model: add, update, delete
    expel = "expel"  # a model: add, edit, agree, remove, with votes


class Outcome(str, Enum):
    """What usage counts as a success (`memory.outcome`)."""

    environment = "environment"  # the benchmark's own success
    verifier = "verifier"  # no hidden label ever reaches the bank


class Judging(str, Enum):
    """Who scores trajectories (`memory.verifier.source`)."""

    off = "off"  # nobody
    policy = "policy"  # the policy itself
    engine = "engine"  # another model, `memory.verifier.engine` (an OpenAI-compatible server: name=api)
    runtime_status = "runtime_status"  # no model: only what the agent saw


class FlatGroups(str, Enum):
    """What groups without outcome spread contribute (`learn.flat_groups`)."""

    keep = "keep"  # normalise whatever spread the format reward leaves (the paper)
    drop = "drop"  # nothing
    outcome_only = "outcome_only"  # nothing; every other advantage comes from the outcome alone


class Select(str, Enum):
    """Which checkpoint evaluation and export take (`learn.checkpoint.select`)."""

    last = "last"  # the newest
    best = "best"  # the best on `evaluate.every_panel`; of equals the earlier


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


@dataclass
class EmbedderConfig:
    name: str = "wordllama"  # bge_m3 | sentence_transformers | wordllama | hashing
    path: str = ""  # folder or hub id where the embedder needs one
    device: str = "cpu"  # cpu | cuda
    batch: int = 64  # texts embedded together
    dim: int = 256  # only for `hashing`


@dataclass
class DistillConfig:
    fraction: float = 0.5  # share of trajectories kept, balanced between success and failure
    per_trajectory: int = 1  # num_memories
    temperature: float = 0.6  # of the distillation's sampling
    max_tokens: int = 512  # longest answer
    prompt_tokens: int = 12288  # longer trajectories keep their head and tail
    min_steps: int = 1  # shorter trajectories are not distilled
    grounded: bool = False  # only memories whose named things some step of the trajectory shows together
    only: str = ""  # success | failure: trajectories of the other outcome are not distilled


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
    enabled: bool = True  # mirror the bank in Milvus
    uri: str = ""  # empty: Milvus Lite inside the run folder; else http://host:19530
    token: str = ""  # of the server, when it wants one
    search_above: int = 0  # retrievable records above which Milvus finds the candidates of a query; 0 = never
    collection: str = "memories"  # name of the collection; on a server followed by the run's name


@dataclass
class VerifierConfig:
    source: Judging = Judging.off  # who scores trajectories
    scale: int = 5  # G: score tokens 1..G
    weights: list[float] = field(default_factory=lambda: [1.0, 1.0, 1.0, 1.0])  # w_j of the criteria, normalised
    views: int = 3  # most views of one trajectory; 1 = never verified again
    low: float = 0.45  # gamma_low of the uncertainty band
    high: float = 0.65  # gamma_high
    taper: float = 0.10  # delta_b: how far beside the band a reward still counts as near it
    alpha: float = 0.5  # share of boundary proximity in u
    repeat_above: float = 0.55  # eta_verify: verify again above this u
    mask_status: bool = False  # hide the runtime status from the verifier
    max_tokens: int = 768  # longest verdict
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
    summaries: int = 2  # summary records per retrieval, at most
    guards: int = 2  # guard records per retrieval, at most
    min_relevance: float = 0.05  # hard filter
    min_confidence: float = 0.50  # hard filter
    guard_relevance: float = 0.62  # eta_guard: guards need this r ...
    guard_confidence: float = 0.70  # ... and this c


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
class ReconstructorConfig:
    engine: EngineConfig = field(default_factory=lambda: EngineConfig(name="api"))  # who rewrites
    model_path: str = ""  # of a local engine: HF folder or hub id


@dataclass
class MemoryConfig:
    use: Use = Use.reconstruct  # what becomes of retrieved records
    trigger: Trigger = Trigger.agentic  # who decides to retrieve
    k: int = 3  # records per retrieval
    max_retrievals: int = 5  # per episode; past it, prompts no longer offer memory
    retrieval_costs_step: bool = False  # a retrieval uses up a step of the horizon
    reconstructor: ReconstructorConfig = field(default_factory=ReconstructorConfig)  # of use=external
    dropout: float = 0.0  # share of training groups that meet an empty bank
    exclude_same_task: bool = False  # in training, hide records distilled from the very task
    only_same_task: bool = False  # hide all records but those of the very task (reflections on earlier attempts)
    hybrid: bool = False  # rank by BM25 + cosine instead of cosine alone
    lexical_weight: float = 0.5  # share of BM25 in the hybrid relevance
    budget: int = 384  # active records at most
    write: bool = True  # distil and insert after each rollout
    start_from: str = ""  # bank snapshot folder to begin with
    embedder: EmbedderConfig = field(default_factory=EmbedderConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)
    dedup: DedupConfig = field(default_factory=DedupConfig)
    prune: PruneConfig = field(default_factory=PruneConfig)
    writer: Writer = Writer.distill  # who words new memories
    manager: Manager = Manager.rules  # who decides what becomes of them
    outcome: Outcome = Outcome.environment  # what usage counts as a success
    noise: float = 0.0  # share of verifier labels corrupted before admission (robustness study)
    verifier: VerifierConfig = field(default_factory=VerifierConfig)
    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    scoring: ScoringConfig = field(default_factory=ScoringConfig)
    lifecycle: LifecycleConfig = field(default_factory=LifecycleConfig)
    milvus: MilvusConfig = field(default_factory=MilvusConfig)


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


@dataclass
class EvalConfig:
    panels: list[str] = field(default_factory=lambda: ["valid_seen", "valid_unseen"])  # splits, one panel each
    limit: int = 0  # first n tasks of each panel; 0 = all
    # how memory is used: memory | none | replay | empty | ...
    modes: list[str] = field(default_factory=lambda: ["memory", "none", "replay"])
    seeds: list[int] = field(default_factory=lambda: [0])  # one evaluation per seed
    temperature: float = 0.4  # of sampling in evaluation
    every: int = 0  # updates between evaluations during training, which choose the best checkpoint; 0 = never
    every_panel: str = "valid_seen"  # split that these evaluations play; report others
    every_limit: int = 0  # its first n tasks; 0 = all
    bank: str = ""  # snapshot folder; empty: the checkpoint's own
    bank_env: str = ""  # environment whose records `bank` is asked for; empty: the run's own


@dataclass
class StreamConfig:
    methods: list[str] = field(  # files of configs/memory, side by side; differences are against the last one
        default_factory=lambda: ["none", "append_only", "verifier_only", "memguard"]
    )
    shared: list[str] = field(default_factory=list)  # settings that all methods share, such as memory.k=3
    noise: list[float] = field(default_factory=lambda: [0.0])  # memory.noise of each method with a bank
    tasks: int = 150  # tasks of a stream, drawn from env.train_split by its seed
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2, 3, 4])  # one stream of every method per seed
    error: float = 0.1  # engine=scripted: share of steps in which the agent errs
    fooled: float = 0.1  # engine=scripted: share of verifier readings that misjudge the episode
    slip: float = 0.1  # engine=scripted: share of lessons that the writer mistakes


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
