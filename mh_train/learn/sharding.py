"""Weights that are divided over processes (FSDP2's DTensors), gathered for a checkpoint and divided again after it.

Why: a checkpoint must not depend on how a run was divided, and a reader wants whole tensors. Invariants:
gathering is collective - every rank calls it, in the same order - and only rank 0 keeps the result, on the CPU; plain
tensors pass through untouched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor


def is_sharded(model: nn.Module) -> bool:
    """Whether the weights are divided over processes (`ds_id`: by ZeRO-3)."""
    return any(isinstance(parameter, DTensor) or hasattr(parameter, "ds_id") for parameter in model.parameters())


def shard_frozen(scorer: nn.Module, model: Any) -> None:
    """Divide a frozen model that `scorer` runs, layer by layer, over all processes."""
    for layer in model.get_decoder().layers:
        fully_shard(layer)
    fully_shard(scorer, reshard_after_forward=True)


def divides_weights(accelerator: Accelerator) -> bool:
    """Whether the launcher's strategy divides weights (fsdp2, zero3): no process can run the model alone."""
    if accelerator.distributed_type == DistributedType.DEEPSPEED:  # GPU only
        return int(accelerator.state.deepspeed_plugin.zero_stage) == 3
    return bool(accelerator.is_fsdp2)


def whole(tensor: Tensor) -> Tensor:
    """The full tensor of a divided one."""
    if hasattr(tensor, "ds_id"):  # ZeRO-3, GPU only
        from deepspeed.zero import GatheredParameters

        with GatheredParameters([tensor]):
            return tensor.detach().clone()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole_weights(model: nn.Module, main: bool, trained_only: bool = False) -> dict[str, Tensor]:
    """Name -> whole weight. Every rank calls it; of divided weights only `main` keeps them, on the CPU."""
    found: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad or not trained_only:
            found |= _kept(name, parameter, main)
    return found


def whole_optimizer(state: Mapping[str, Any], main: bool) -> dict[str, Any]:
    """An optimizer's `state_dict()` with whole tensors; every rank calls it, `main` keeps the divided ones."""
    moments = {
        index: {key: value for name, item in one.items() for key, value in _kept(name, item, main).items()}
        for index, one in state["state"].items()
    }
    return {"state": moments, "param_groups": state["param_groups"]}


def divided_optimizer(state: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """A `state_dict()` with whole tensors, divided as the optimizer's parameters are."""
    parameters = dict(enumerate(p for group in optimizer.param_groups for p in group["params"]))
    moments = {
        index: {name: like(item, parameters[index]) for name, item in one.items()}
        for index, one in state["state"].items()
    }
    return {"state": moments, "param_groups": state["param_groups"]}


def like(value: Any, parameter: Tensor) -> Any:
    """`value` divided as `parameter` is, when it has the parameter's shape."""
    if isinstance(parameter, DTensor) and isinstance(value, Tensor) and value.shape == parameter.shape:
        return distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements)
    return value


def _kept(name: str, value: Any, main: bool) -> dict[str, Any]:
    if not isinstance(value, DTensor) and not hasattr(value, "ds_id"):
        return {name: value.detach() if isinstance(value, Tensor) else value}
    gathered = whole(value).detach()
    return {name: gathered.cpu()} if main else {}
