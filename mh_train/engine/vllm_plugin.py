"""Runs inside vLLM's workers: takes new weights from a file, through vLLM's own weight-transfer API.

Why: vLLM's transports (NCCL, CUDA IPC) need a GPU at both ends; a file in shared memory, or on a file system that
trainer and servers share, works everywhere. vLLM finds `register` through the entry point `vllm.general_plugins`.
Invariant: weights go through vLLM's layer-wise reload, as a checkpoint does, so fused and packed layers are rebuilt.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from typing import Any

from vllm.distributed.weight_transfer import WeightTransferEngine, WeightTransferEngineFactory
from vllm.distributed.weight_transfer.base import WeightTransferInitInfo, WeightTransferUpdateInfo

from mh_train.engine.processes import die_with_parent

BACKEND = "file"


def register() -> None:
    """Make `weight_transfer_config.backend=file` known; vLLM calls this in each of its processes, some twice. Those
    that it started end with whoever started them: vLLM 0.31 leaves the engine of a killed process running."""
    if multiprocessing.parent_process() is not None:
        die_with_parent()
    if BACKEND not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(BACKEND, FileTransfer)


@dataclass
class NoRendezvous(WeightTransferInitInfo):
    """A file needs no connection."""


@dataclass
class FileUpdate(WeightTransferUpdateInfo):
    """`path` of a safetensors file with tensors under their checkpoint names."""

    path: str


class FileTransfer(WeightTransferEngine[NoRendezvous, FileUpdate]):
    """Loads checkpoint-format weights from a memory-mapped safetensors file."""

    init_info_cls = NoRendezvous
    update_info_cls = FileUpdate

    def init_transfer_engine(self, init_info: NoRendezvous) -> None:
        """Nothing to connect."""

    def start_weight_update(self) -> None:
        """Open the model's layers for new weights."""
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Load one file. (The base class also waits for an accelerator, which a CPU does not have.)"""
        self.receive_weights(self.parse_update_info(update_info))

    def receive_weights(self, update_info: FileUpdate) -> None:
        """Stream the tensors of the file into the model."""
        from safetensors import safe_open

        with safe_open(update_info.path, framework="pt", device=str(self.device)) as file:
            self.model.load_weights((name, file.get_tensor(name)) for name in file.keys())  # noqa: SIM118

    def finish_weight_update(self) -> None:
        """Rebuild what vLLM derives from weights (fused, packed and quantised forms)."""
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        finalize_layerwise_reload(self.model, self.model_config)
        if self.device.type == "cpu":
            self._repack_tied_heads()

    def _repack_tied_heads(self) -> None:
        """On a CPU a head that shares the embedding's weight keeps a packed copy, which vLLM 0.31 does not renew."""
        from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

        for layer in self.model.modules():
            if hasattr(layer, "cpu_linear") and layer.weight.numel():
                dispatch_cpu_unquantized_gemm(layer, remove_weight=False)

    def shutdown(self) -> None:
        """Nothing is open between updates."""
