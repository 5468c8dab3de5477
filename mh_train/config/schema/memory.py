"""Settings of the memory bank: what is written, kept, retrieved and made of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from mh_train.config.schema.choices import Manager, Outcome, Trigger, Use, Writer
from mh_train.config.schema.governance import AdmissionConfig, LifecycleConfig, ScoringConfig, VerifierConfig
from mh_train.config.schema.policy import EngineConfig


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
