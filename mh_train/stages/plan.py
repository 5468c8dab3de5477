"""Say whether a run fits before it starts: memory per GPU, tokens per update, engine replicas.

Run: `mh-train plan experiment=memharness_alfworld_7b gpus=8x80GB nodes=2`; exit code 1 when it cannot fit.
"""

from __future__ import annotations

from collections.abc import Sequence

from mh_train.config import ConfigError, compose
from mh_train.config.plan import GB, Machine, Plan, make_plan, parse_gpus

OWN = ("gpus", "nodes")


def main(words: Sequence[str]) -> int:
    """`gpus=8x80GB nodes=2` and the run's settings; what is not given is the launcher's. Prints the plan."""
    own = dict(word.split("=", 1) for word in words if word.split("=", 1)[0] in OWN and "=" in word)
    config = compose([word for word in words if word.split("=", 1)[0] not in OWN])
    launcher = config.launcher
    try:
        gpus, memory = parse_gpus(own.get("gpus", f"{launcher.gpus}x{launcher.gpu_memory_gb:g}"))
        machine = Machine(int(own.get("nodes", launcher.nodes)), gpus, memory)
        plan = make_plan(config, machine, launcher.strategy)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    print(render(config.name, plan))
    return int(plan.peak > machine.memory)


def render(name: str, plan: Plan) -> str:
    """The plan as a person reads it."""
    machine, limit = plan.machine, f"{plan.machine.memory / GB:.0f} GB"
    lines = [
        f"{name}: {machine.nodes} node(s) x {machine.gpus} GPU(s) of {limit}, {plan.strategy}",
        f"model        {plan.parameters / 1e9:.2f} B parameters, {plan.trained / 1e9:.3f} B trained",
        f"engine       {plan.replicas} replica(s), {plan.episodes_per_replica} episodes each",
        f"update       at most {plan.tokens / 1e6:.1f} M tokens",
        "per GPU",
    ]
    lines += [f"  {part:<16}{size / GB:8.2f} GB" for part, size in plan.parts.items() if size]
    lines += [
        f"  {'peak, update':<16}{plan.update / GB:8.2f} GB of {limit}",
        f"  {'peak, rollout':<16}{plan.rollout / GB:8.2f} GB of {limit}",
    ]
    return "\n".join([*lines, *(f"warning: {text}" for text in plan.warnings)])
