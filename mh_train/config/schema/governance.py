"""Settings of what MemGuard adds to a bank: verification, admission, scoring, life cycle."""

from __future__ import annotations

from dataclasses import dataclass, field

from mh_train.config.schema.choices import Judging
from mh_train.config.schema.policy import EngineConfig


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
