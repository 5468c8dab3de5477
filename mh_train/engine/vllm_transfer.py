"""The trainer's end of vLLM's weight-transfer API: one function that pushes the weights, whatever carries them.

Why: the same four calls (init, start, update, finish) reach a vLLM in this job and a vLLM server. Transports: `file`
(memory or a file system that both ends see; also on a CPU), `ipc` (GPU only: another process on the trainer's GPU) and
`nccl` (GPU only: other GPUs, other machines). Invariant: `send(path)` returns when every worker holds the new weights.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from mh_train.engine.base import EngineError

Send = Callable[[Path], None]


class Client(Protocol):
    """What vLLM calls a weight-sync client."""

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Connect the workers."""

    def start_weight_update(self) -> None:
        """Open the layers."""

    def update_weights(self, update_info: Any) -> None:
        """Take a part of the weights."""

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Close the layers."""


class InProcess:
    """The client of an `LLMEngine` in this job."""

    def __init__(self, engine: Any) -> None:
        self._rpc = engine.collective_rpc

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Connect the workers."""
        self._rpc("init_weight_transfer_engine", kwargs={"init_info": init_info})

    def start_weight_update(self) -> None:
        """Open the layers."""
        self._rpc("start_weight_update")

    def update_weights(self, update_info: Any) -> None:
        """Take a part of the weights."""
        self._rpc("update_weights", kwargs={"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Close the layers."""
        self._rpc("finish_weight_update")


def make_sender(transfer: str, client: Client, model: Any, address: str = "", workers: int = 1) -> Send:
    """Connect to the workers behind `client`; `send(path)` then pushes `model`'s weights (`file`: those at `path`).

    `nccl` meets `workers` GPU workers at `address` ("host:port" of this machine).
    """
    if transfer == "file":
        client.init_weight_transfer_engine({})

        def send(path: Path) -> None:
            client.start_weight_update()
            client.update_weights({"path": str(path)})
            client.finish_weight_update()

        return send
    return _gpu_sender(transfer, client, model, address, workers)


def _gpu_sender(transfer: str, client: Client, model: Any, address: str, workers: int) -> Send:
    """GPU only (scripts/gpu_check.sh): vLLM's own transports, which read the tensors where the trainer holds them."""
    from vllm.distributed.weight_transfer import ModuleSource, WeightTransferTrainerFactory

    info: Any
    if transfer == "ipc":
        from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo

        info = IPCTrainerInitInfo(rank=0, packed=True)
    elif transfer == "nccl":
        from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

        host, _, port = address.rpartition(":")
        info = NCCLTrainerInitInfo(host, int(port), world_size=workers + 1, rank=0)
    else:
        raise EngineError(f"engine.options.transfer={transfer} is unknown; choose file, ipc or nccl.")
    sender = WeightTransferTrainerFactory.trainer_init(info, client=client, source=ModuleSource(model))
    return lambda path: sender.send_weights()
