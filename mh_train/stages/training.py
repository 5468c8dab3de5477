"""What a training holds from update to update: begun anew or from a checkpoint, saved, exported.

Why: the loop (`stages.grpo`) should read as the acts of an update. Invariants: a checkpoint holds everything that the
next update depends on; of several processes rank 0 alone has what is unique (bank, metrics, judge).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mh_train.config import ConfigError, RunConfig
from mh_train.config.schema import Select, Use
from mh_train.learn.checkpoint import latest, restore, save
from mh_train.learn.export import ModelCard, export_model
from mh_train.learn.learner import Learner
from mh_train.learn.lora import add_lora
from mh_train.learn.ranks import Ranks
from mh_train.learn.sharding import whole_weights
from mh_train.memory.bank import Bank
from mh_train.memory.embed import Embedder, make_embedder
from mh_train.memory.judge import Judge
from mh_train.memory.reader import BankReader
from mh_train.memory.snapshot import save_snapshot
from mh_train.memory.view import BankView
from mh_train.rollout.panels import TaskCursor, make_panel
from mh_train.rollout.play import RolloutResult
from mh_train.run.folder import RunFolder, versions
from mh_train.run.metrics import Metrics
from mh_train.run.progress import say
from mh_train.stages import parts
from mh_train.stages.actors import WITHOUT_MODEL
from mh_train.stages.flights import Flights
from mh_train.stages.others import external_speaker, other_judge
from mh_train.stages.selection import Best, chosen, note_export


@dataclass
class Training:
    """Everything that lives from update to update. `update` is the last finished one.

    Rank 0 alone has `bank`, `metrics` and `judge` (None: the policy judges, or nobody); every rank has `view`, what
    episodes see of the bank (None: no memory)."""

    config: RunConfig
    folder: RunFolder
    ranks: Ranks
    policy: parts.Policy
    learner: Learner
    cursor: TaskCursor
    embedder: Embedder | None
    bank: Bank | None
    metrics: Metrics | None
    judge: Judge | None = None
    view: BankView | None = None
    update: int = 0
    best: Best = field(default_factory=dict)
    cursors: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Where the cursor stood before the tasks of an update were drawn, for rollouts that are not trained on yet."""
    flights: Flights[Flight] | None = None


@dataclass
class Flight:
    """A finished rollout, and the door to memory that its episodes had."""

    result: RolloutResult
    reader: BankReader | None


def begin(config: RunConfig, folder: RunFolder, ranks: Ranks) -> Training:
    """A new training, or the one that the newest intact checkpoint holds."""
    if config.engine.name in WITHOUT_MODEL:
        raise ConfigError(f"engine={config.engine.name} holds no weights to train; choose transformers or vllm.")
    policy = parts.policy(config, parts.start_policy(config, folder))
    policy.model = add_lora(policy.model, config.model.lora, config.seed)
    if config.memory.use is Use.external:
        policy.speaker = external_speaker(config, policy.engine)
    learner = Learner(policy.model, config.learn, ranks.accelerator, config.seed)
    panel = make_panel(parts.environment(config), config.env.train_split, config.env.options)
    cursor = TaskCursor(panel, config.seed)
    found = latest(folder.checkpoints)
    parts.check_shared_folder(ranks, folder, found.update if found else 0)
    embedder = None if config.memory.use is Use.none else make_embedder(config.memory.embedder)
    bank, metrics = None, None
    if ranks.main:
        bank = parts.open_bank(config, folder, found.path / "bank" if found else None, embedder)
        metrics = Metrics(folder, config, found.state["tracker"] if found else "")
    judge = other_judge(config) if ranks.main else None
    run = Training(config, folder, ranks, policy, learner, cursor, embedder, bank, metrics, judge)
    if found:
        restore(found, learner)
        cursor.load_state_dict(found.state["cursor"])
        run.update, run.best = found.update, found.state.get("best", {})
        say(f"grpo     continues after update {found.update}")
    if metrics is not None:
        metrics.rewind(run.update)
    run.view = ranks.from_main(None if bank is None else bank.view())
    return run


def checkpoint(run: Training) -> None:
    """Everything that the next update depends on. Called on every rank."""
    bank = run.bank
    cursor = run.cursors.get(run.update + 1) or run.cursor.state_dict()
    state = {"cursor": cursor, "tracker": run.metrics.run_id if run.metrics is not None else "", "best": run.best}
    pinned = [run.best["update"]] if run.best else []
    writers = {} if bank is None else {"bank": partial(save_snapshot, bank)}
    save(run.folder.checkpoints, run.update, run.learner, state, run.config.learn.checkpoint, writers, pinned)


def export(run: Training) -> None:
    """Write the policy that `learn.checkpoint.select` takes to `<run>/model`. Called on every rank."""
    config, update = run.config, run.update
    if config.learn.checkpoint.select is Select.best:
        found = chosen(run.folder.checkpoints, Select.best)
        if found is not None:
            restore(found, run.learner)
            update = found.update
    weights = whole_weights(run.learner.model, run.ranks.main) if run.learner.sharded else None
    if run.ranks.main:
        card = ModelCard(config.name, config.model.path, config.env.name, update, versions=versions())
        export_model(run.learner.model, run.policy.tokenizer, run.folder.model, card, weights=weights)
        note_export(run.folder.model, update)


def bank_reader(run: Training, training: bool) -> BankReader | None:
    """A door to the bank as it is now; None for a run without memory."""
    if run.view is None or run.embedder is None:
        return None
    moving = run.config.rollout.max_staleness > 0  # a mirror that moves on during a rollout gives other answers
    search = None if run.bank is None or moving else run.bank.search()
    return BankReader(run.view, run.embedder, run.config.memory, training=training, search=search)
