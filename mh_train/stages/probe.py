"""Counterfactual probes: build a set from a run's episodes, run it on a policy, report.

    mh-train probe build RUN [--out FILE] [--most N] [--updates N] [--teacher URL --teacher-model NAME]
    mh-train probe run RUN [--probes FILE] [--model PATH] [--limit N]

`build` takes real states and memories that were really retrieved there from `RUN/trajectories` (or one JSONL file of
trajectories); rules edit them, or a teacher does whose answers are held to the same checks. `run` asks the run's
policy, or another model, greedily, and writes `RUN/probes/report.json` and `report.md`. Without `--probes` it takes the
set of the run's environment that ships with the project.
Invariant: the policy's answers are kept beside the report, so that labels can be computed again.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from mh_train.agent.speaker import TurnRequest
from mh_train.agent.types import Trajectory
from mh_train.config import ConfigError, RunConfig
from mh_train.engine.api import ApiEngine
from mh_train.engine.base import Sampling
from mh_train.evaluate import probes as probing
from mh_train.evaluate.probes import Probe, build, read_probes, report, write_probes
from mh_train.evaluate.statistics import EvaluationError
from mh_train.evaluate.teacher import teach
from mh_train.files import write_atomic, write_json, write_jsonl
from mh_train.memory.distill import ask_all
from mh_train.rollout.writer import read_trajectories
from mh_train.run.folder import RunFolder
from mh_train.run.progress import say
from mh_train.stages import parts
from mh_train.stages.actors import load_actor, source


def main(words: Sequence[str]) -> int:
    """The tool's entry; `words` are those after `mh-train probe`."""
    asked = _parser().parse_args(list(words))
    try:
        return build_set(asked) if asked.act == "build" else run_set(asked)
    except EvaluationError as error:
        raise ConfigError(str(error)) from error


def build_set(asked: argparse.Namespace) -> int:
    """Build probes and write them as JSON lines."""
    trajectories = episodes(Path(asked.run), asked.updates)
    if asked.teacher:
        engine = ApiEngine(asked.teacher, asked.teacher_model)
        made, faults = asyncio.run(teach(trajectories, asked.most, engine))
        for why, count in sorted(faults.items()):
            say(f"left out: {count} ({why})")
    else:
        made = build(trajectories, asked.most)
    if not made:
        raise EvaluationError("Not one state could be edited; give more episodes, of a policy that accepts memories.")
    out = Path(asked.out) if asked.out else Path(asked.run) / "probes" / "probes.jsonl"
    write_probes(out, made)
    say(f"{len(made)} probes from {len(trajectories)} episodes: {out}")
    return 0


def episodes(path: Path, updates: int) -> list[Trajectory]:
    """The trajectories of a file, or of the last `updates` updates of a run."""
    files = [path] if path.is_file() else sorted((path / "trajectories").glob("update-*.jsonl"))[-updates:]
    if not files:
        raise EvaluationError(f"{path} holds no trajectories; give a run that has trained, or a JSONL file.")
    return [trajectory for file in files for trajectory in read_trajectories(file)]


def run_set(asked: argparse.Namespace) -> int:
    """Ask the policy about every probe before and after its edit; write and print the report."""
    folder, config = RunFolder.existing(asked.run)
    path = Path(asked.probes) if asked.probes else probing.SHIPPED / f"{config.env.name}.jsonl"
    probes = read_probes(path)[: asked.limit or None]
    parts.settle(config, main=False)
    answers = asyncio.run(answer(config, asked.model or source(config, folder), probes))
    before, after = [pair[0] for pair in answers], [pair[1] for pair in answers]
    result = report(probes, before, after)
    place = folder.path / "probes"
    rows = ({"id": p.id, "before": a, "after": b} for p, (a, b) in zip(probes, answers, strict=True))
    write_jsonl(place / "answers.jsonl", rows)
    write_json(place / "report.json", result)
    write_atomic(place / "report.md", probing.markdown(result))
    print(probing.markdown(result))
    say(f"report: {place / 'report.md'}")
    return 0


async def answer(config: RunConfig, model: str, probes: Sequence[Probe]) -> list[tuple[str, str]]:
    """(completion for s+, completion for s-) of each probe, greedy, by the policy at `model`."""
    policy, _ = load_actor(config, model)
    sampling = Sampling(temperature=0.0, max_tokens=config.env.completion_tokens)
    turns = []
    for probe in probes:
        for state in (probe.s_plus, probe.s_minus):
            shown = policy.prompts.reconstruct(probe.situation(state), [probe.hit()])
            turns.append(
                TurnRequest(
                    kind="reconstruct",
                    step=len(probe.history),
                    prompt_ids=shown.ids,
                    sampling=sampling,
                    noise=probing.noise(probe),
                    goal=probe.goal,
                    observation=None,
                    hits=[probe.hit()],
                    messages=shown.messages,
                )
            )
    async with policy.engine:
        told = [completion.text for completion in await ask_all(policy.speaker, policy.engine, turns)]
    return list(zip(told[::2], told[1::2], strict=True))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mh-train probe", description="Counterfactual probes of reconstruction.")
    acts = parser.add_subparsers(dest="act", required=True)
    make = acts.add_parser("build", help="make a probe set from a run's episodes")
    make.add_argument("run", help="a run folder, or a JSONL file of trajectories")
    make.add_argument("--out", default="", help="where the set goes (default: RUN/probes/probes.jsonl)")
    make.add_argument("--most", type=int, default=1000, help="probes at most (the paper has 1000 per environment)")
    make.add_argument("--updates", type=int, default=10, help="last updates whose episodes are taken")
    make.add_argument(
        "--teacher", default="", help="address of an OpenAI-compatible server that edits instead of rules"
    )
    make.add_argument("--teacher-model", default="", help="its model; the key is read from OPENAI_API_KEY")
    run = acts.add_parser("run", help="ask a policy about every probe, and report")
    run.add_argument("run", help="a run folder")
    run.add_argument("--probes", default="", help="a probe set (default: the one that ships for the environment)")
    run.add_argument("--model", default="", help="a model folder or hub id instead of the run's own policy")
    run.add_argument("--limit", type=int, default=0, help="the first probes only")
    return parser
