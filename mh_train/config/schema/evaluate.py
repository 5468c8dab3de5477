"""Settings of evaluation and of streams."""

from __future__ import annotations

from dataclasses import dataclass, field


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
