"""Every setting of a run, as dataclasses: the one schema that YAML files, the command line and the rooms share.

Why: a typo or a wrong type must fail before anything is loaded. Each field's comment is its documentation; defaults are
the papers' values (SPEC). Invariant: only plain types, so that a resolved config is a YAML file and nothing more.
"""

from mh_train.config.schema.choices import (
    Estimator,
    FlatGroups,
    Judging,
    Manager,
    Outcome,
    Select,
    Trigger,
    Use,
    Writer,
)
from mh_train.config.schema.evaluate import EvalConfig, StreamConfig
from mh_train.config.schema.governance import AdmissionConfig, LifecycleConfig, ScoringConfig, VerifierConfig
from mh_train.config.schema.learn import CheckpointConfig, LearnConfig, SftConfig
from mh_train.config.schema.memory import (
    DedupConfig,
    DistillConfig,
    EmbedderConfig,
    MemoryConfig,
    MilvusConfig,
    PruneConfig,
    ReconstructorConfig,
)
from mh_train.config.schema.policy import (
    DataConfig,
    EngineConfig,
    EnvConfig,
    LoraConfig,
    ModelConfig,
    PromptConfig,
    RewardConfig,
    RolloutConfig,
    TinyConfig,
)
from mh_train.config.schema.run import LauncherConfig, RunConfig, TrackConfig

__all__ = [
    "AdmissionConfig",
    "CheckpointConfig",
    "DataConfig",
    "DedupConfig",
    "DistillConfig",
    "EmbedderConfig",
    "EngineConfig",
    "EnvConfig",
    "Estimator",
    "EvalConfig",
    "FlatGroups",
    "Judging",
    "LauncherConfig",
    "LearnConfig",
    "LifecycleConfig",
    "LoraConfig",
    "Manager",
    "MemoryConfig",
    "MilvusConfig",
    "ModelConfig",
    "Outcome",
    "PromptConfig",
    "PruneConfig",
    "ReconstructorConfig",
    "RewardConfig",
    "RolloutConfig",
    "RunConfig",
    "ScoringConfig",
    "Select",
    "SftConfig",
    "StreamConfig",
    "TinyConfig",
    "TrackConfig",
    "Trigger",
    "Use",
    "VerifierConfig",
    "Writer",
]
