"""Generation by vLLM servers: started by this run, or given by their addresses; several replicas.

Why: generation on GPUs, or machines, apart from the trainer's. Invariants: what `VllmEngine` promises; a server that
dies is started again (or waited for), gets the current weights, and its requests are asked again: the episodes notice
nothing, since a request's noise is its own.
Run: `mh-train grpo experiment=... engine=vllm_server engine.options.replicas=2 'engine.options.gpus=["1","2"]'`.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from mh_train.engine.base import Codec, Completion, Engine, EngineStats, Request
from mh_train.engine.processes import local_rank, rank, share
from mh_train.engine.serving import Serving
from mh_train.engine.vllm import engine_args
from mh_train.engine.vllm_replica import Replica, ReplicaDown, free_port
from mh_train.engine.vllm_router import Router
from mh_train.engine.weights import exchange_folder, has_adapter, save_adapter, save_weights

log = logging.getLogger(__name__)

TRIES = 3
"""Servers that a request may lose before the run stops."""


class VllmServerEngine(Engine):
    """Replicas of the policy behind HTTP. With `urls` ("http://host:port") servers are used as they are; else
    `replicas` are started here, the n-th on the GPUs `gpus[n]` (for example "1" or "2,3"). Of several trainer processes
    each has servers of its own: an equal part of `urls`, and of its machine's `gpus`.

    `transfer` as in `vllm_transfer`; `file` needs `exchange`, a folder that trainer and servers share, when they run on
    different machines. `nccl` meets the n-th replica of a machine at `address` + n. Other `options` are vLLM's engine
    arguments.
    """

    name = "vllm_server"
    holds_weights = True

    def __init__(
        self,
        serving: Serving,
        codec: Codec,
        max_batch: int = 128,
        urls: Sequence[str] = (),
        replicas: int = 1,
        gpus: Sequence[str] = (),
        transfer: str = "file",
        exchange: str = "",
        address: str = "127.0.0.1:29600",
        logs: str = "",
        start_s: float = 900.0,
        timeout_s: float = 900.0,
        **options: Any,
    ) -> None:
        self.serving, self.codec, self.max_context = serving, codec, serving.max_context
        self.gpus, urls = share(gpus, local_rank(), "gpus"), share(urls, rank(), "urls")
        self.transfer, self.start_s = transfer, start_s
        self._arguments = engine_args(serving, transfer, {"max_num_seqs": max_batch, **options})
        self._exchange = exchange_folder(exchange) / f"{id(self):x}"
        self._logs = Path(logs) if logs else self._exchange
        self._own = not urls
        roots = [url.rstrip("/").removesuffix("/v1") for url in urls]
        roots = roots or [f"http://127.0.0.1:{free_port()}" for _ in range(replicas)]
        self.replicas = [Replica(root, codec, serving.max_context, timeout_s) for root in roots]
        host, _, port = address.rpartition(":")
        first = int(port) + local_rank()[0] * len(roots)
        self._meet = [f"{host}:{first + number}" for number in range(len(roots))]
        self._router = Router(len(self.replicas))
        self._ready: list[asyncio.Task[None] | None] = [None] * len(self.replicas)
        self._held: tuple[Any, Path, str] | None = None  # what a server must be given: model, file, adapter name
        self._retired: list[tuple[str, Path]] = []
        self._stats = EngineStats()

    async def generate(self, request: Request) -> Completion:
        """Complete one prompt; raises `EngineError` when it does not fit, is refused, or servers keep dying."""
        self.check_fits(request)
        started = time.perf_counter()
        for lost in range(TRIES):
            number = self._router.choose(request.prompt_ids, range(len(self.replicas)))
            self._router.loads[number] += 1
            try:
                await self._up(number)
                completion = await self.replicas[number].generate(request)
            except ReplicaDown as error:
                log.warning("A vLLM server is gone (%s); its request is asked again.", error)
                self._stats.extra["replayed"] = self._stats.extra.get("replayed", 0) + 1
                if lost + 1 == TRIES:
                    raise
                await self._lost(number)
            else:
                self._count(request, completion, time.perf_counter() - started)
                return completion
            finally:
                self._router.loads[number] -= 1
        raise AssertionError

    async def sync(self, model: Any, version: int) -> dict[str, float]:
        """Push the trainer's weights (with LoRA only the adapter) to every server."""
        started = time.perf_counter()
        old = self._held
        self._exchange.mkdir(parents=True, exist_ok=True)
        if has_adapter(model):
            path, adapter = save_adapter(model, self._exchange / f"adapter-{version}"), f"v{version}-{time.time_ns()}"
        else:
            path, adapter = self._exchange, ""
            if self.transfer == "file":
                path = save_weights(model, getattr(torch, self.serving.dtype), self._exchange)
        self._held = (model, path, adapter)
        await asyncio.gather(*(self._renew(number) for number in range(len(self.replicas))))
        self._router.forget()
        if old is not None and old[2]:
            self._retired.append((old[2], old[1]))
        if not any(self._router.loads):
            await self._drop_retired(path)
        self.version = version
        size = sum(file.stat().st_size for file in ([path] if path.is_file() else path.glob("adapter*")))
        return {"time/sync_s": time.perf_counter() - started, "engine/sync_mb": size / 2**20}

    def take_stats(self) -> EngineStats:
        """Counters since the previous call, reset; `extra` counts `replayed` requests and `restarts`."""
        taken, self._stats = self._stats, EngineStats()
        return taken

    async def close(self) -> None:
        """Stop the servers that this run started."""
        for replica in self.replicas:
            await replica.close()
            await asyncio.to_thread(replica.stop)
        shutil.rmtree(self._exchange, ignore_errors=True)

    async def _drop_retired(self, current: Path) -> None:
        """Old adapters leave all servers; nobody is using them."""
        for adapter, path in self._retired:
            await asyncio.gather(*(asyncio.to_thread(replica.drop_adapter, adapter) for replica in self.replicas))
            if path != current:
                shutil.rmtree(path, ignore_errors=True)
        self._retired.clear()

    async def _renew(self, number: int) -> None:
        """Give a server the current weights; one that is down gets them when it comes back."""
        if self._ready[number] is None:
            await self._up(number)
            return
        await self._up(number)
        try:
            await self._hand_over(number)
        except ReplicaDown as error:
            log.warning("A vLLM server is gone during a weight update: %s", error)
            await self._lost(number)
            await self._up(number)

    async def _up(self, number: int) -> None:
        """Wait until a server is healthy and holds the current weights; the first who asks brings it up."""
        task = self._ready[number]
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._ready[number] = asyncio.get_running_loop().create_task(self._bring_up(number))
        await asyncio.shield(task) if not task.done() else task.result()

    async def _bring_up(self, number: int) -> None:
        replica = self.replicas[number]
        if self._own:
            gpus = self.gpus[number] if number < len(self.gpus) else ""
            replica.start(self._arguments, gpus, self._logs / f"server-{number}.log")
        await replica.wait(self.start_s)
        await self._hand_over(number)

    async def _hand_over(self, number: int) -> None:
        if self._held is None:
            return
        model, path, adapter = self._held
        replica = self.replicas[number]
        if adapter:
            await asyncio.to_thread(replica.load_adapter, adapter, path)
            return
        await asyncio.to_thread(replica.push, model, self.transfer, path, self._meet[number])

    async def _lost(self, number: int) -> None:
        """A request or an update failed: unless the server is healthy after all, it must be brought up again."""
        task = self._ready[number]
        if (
            task is not None
            and task.done()
            and not await self.replicas[number].healthy()
            and self._ready[number] is task
        ):
            self._stats.extra["restarts"] = self._stats.extra.get("restarts", 0) + 1
            self.replicas[number].stop()
            self._ready[number] = None

    def _count(self, request: Request, completion: Completion, seconds: float) -> None:
        self._stats.requests += 1
        self._stats.prompt_tokens += len(request.prompt_ids)
        self._stats.completion_tokens += len(completion.token_ids)
        self._stats.seconds += seconds
