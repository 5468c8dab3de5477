"""Generation by vLLM in this job: continuous batching, cached prefixes, weights pushed after every update.

Why: on a GPU this is several times faster than `transformers`, and it scales. Invariants: token ids in and out, never
text; log-probs are those of the distribution at the sampling temperature (`processed_logprobs`); what a request draws
depends on its noise key alone, up to rounding. With top_p < 1 or top_k > 0 log-probs are those of the cut
distribution, as vLLM reports them (training forbids both).
Run: `mh-train grpo experiment=quickstart engine=vllm`; docs/engines.md tells how to install vLLM.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

from mh_train.engine.base import Codec, Completion, Engine, EngineError, EngineStats, FinishReason, Request
from mh_train.engine.processes import own_gpu, rank
from mh_train.engine.serving import Serving
from mh_train.engine.vllm_pump import Pump
from mh_train.engine.vllm_transfer import InProcess, make_sender
from mh_train.engine.weights import exchange_folder, has_adapter, save_adapter, save_weights

FINISH: dict[str, FinishReason] = {"stop": "stop", "length": "length"}
INT64 = 2**63 - 1
CPU_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # vLLM's core in this process: one import instead of three
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else vLLM binds threads to cores that others use
    "TORCHDYNAMO_DISABLE": "1",  # else the first sampled token waits for a C++ compiler
}


class VllmEngine(Engine):
    """vLLM over the model of `serving`. `options` are fields of vLLM's `EngineArgs`; `transfer` names how new weights
    travel (`vllm_transfer`). The engine starts with the first request or sync."""

    name = "vllm"
    holds_weights = True

    def __init__(
        self, serving: Serving, codec: Codec, max_batch: int = 128, transfer: str = "file", **options: Any
    ) -> None:
        self.serving, self.codec, self.max_context = serving, codec, serving.max_context
        self.transfer, self.version = transfer, 0
        self._options = {"max_num_seqs": max_batch, **options}
        self._pump = Pump(self._build)
        self._exchange = exchange_folder() / f"{id(self):x}"
        self._adapter: Any = None
        self._retired: list[Any] = []
        self._sender: Any = None
        self._asleep = False
        self._stats = EngineStats()

    async def generate(self, request: Request) -> Completion:
        """Complete one prompt; raises `EngineError` when it is empty, fills the context, or vLLM failed."""
        self.check_fits(request)
        started = time.perf_counter()
        prompt = {"prompt_token_ids": list(request.prompt_ids)}
        try:
            output = await asyncio.wrap_future(
                self._pump.generate(
                    prompt, lambda: sampling_params(request, self.codec.end_ids()), lambda: self._adapter
                )
            )
        except ValueError as error:
            raise EngineError(f"vLLM refused a request: {error}") from error
        completion = read_output(output.outputs[0], request, self.codec)
        self._count(request, completion, output.num_cached_tokens or 0, time.perf_counter() - started)
        return completion

    async def sync(self, model: Any, version: int) -> dict[str, float]:
        """Push the trainer's weights (with LoRA only the adapter), forget cached prefixes; requests that are running
        go on with the new weights, their cache computed anew."""
        started = time.perf_counter()
        adapter = has_adapter(model)
        if adapter or self.transfer == "file":
            self._exchange.mkdir(parents=True, exist_ok=True)
        if adapter:
            path = save_adapter(model, self._exchange / f"adapter-{version}")
            await self._do(lambda engine: self._swap_adapter(engine, path, version))
        else:
            path = self._exchange
            if self.transfer == "file":
                path = save_weights(model, getattr(torch, self.serving.dtype), self._exchange)
            await self._do(lambda engine: self._swap_weights(engine, model, path))
        size = sum(file.stat().st_size for file in self._exchange.rglob("*") if file.is_file())
        shutil.rmtree(self._exchange, ignore_errors=True) if not adapter else None
        self.version = version
        return {"time/sync_s": time.perf_counter() - started, "engine/sync_mb": size / 2**20}

    async def sleep(self) -> None:
        """Give the GPU's memory to the trainer until the next `sync` (`enable_sleep_mode: true`; nothing on a CPU)."""
        if self._options.get("enable_sleep_mode"):
            await self._do(lambda engine: engine.sleep(level=1))
            self._asleep = True

    def take_stats(self) -> EngineStats:
        """Counters since the previous call, reset; `extra["cached_tokens"]` counts prompt tokens found in the cache."""
        taken, self._stats = self._stats, EngineStats()
        return taken

    async def close(self) -> None:
        """Stop vLLM."""
        await asyncio.to_thread(self._pump.close)
        shutil.rmtree(self._exchange, ignore_errors=True)

    async def _do(self, job: Any) -> Any:
        return await asyncio.wrap_future(self._pump.submit(job))

    def _build(self) -> Any:
        """Start vLLM; runs in the pump's thread."""
        if not torch.cuda.is_available():
            alone = rank()[1] == 1  # vLLM's core in this process would join the trainers' process group
            for name, value in (CPU_ENVIRONMENT | ({} if alone else {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"})).items():
                os.environ.setdefault(name, value)
            torch._dynamo.config.disable = True  # its environment variable is read when torch._dynamo is imported
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        try:
            from vllm.engine.arg_utils import EngineArgs
            from vllm.v1.engine.llm_engine import LLMEngine
        except ImportError as error:
            raise EngineError(f"engine=vllm needs vLLM ({error}); docs/engines.md tells how to install it.") from error
        with own_gpu(torch.cuda.device_count()):
            return LLMEngine.from_engine_args(EngineArgs(**engine_args(self.serving, self.transfer, self._options)))

    def _swap_weights(self, engine: Any, model: Any, path: Path) -> None:
        """Load whole new weights between two steps."""
        engine.sleep(level=0, mode="keep")
        if self._asleep:
            engine.wake_up(tags=["weights"])
        if self._sender is None:
            self._sender = make_sender(self.transfer, InProcess(engine), model)
        self._sender(path)
        if self._asleep:
            engine.wake_up(tags=["kv_cache"])
        self._asleep = False
        engine.wake_up(tags=["scheduling"])
        engine.reset_prefix_cache(reset_running_requests=True)

    def _swap_adapter(self, engine: Any, path: Path, version: int) -> None:
        """Load the new adapter; old ones are unloaded as soon as no request is running."""
        from vllm.lora.request import LoRARequest

        if self._asleep:
            engine.wake_up()
        self._asleep = False
        if self._adapter is not None:
            self._retired.append(self._adapter)
        self._adapter = LoRARequest(f"v{version}", version + 1, str(path))
        engine.add_lora(self._adapter)
        if not engine.has_unfinished_requests():
            for old in self._retired:
                engine.remove_lora(old.lora_int_id)
                shutil.rmtree(old.lora_path, ignore_errors=True)
            self._retired.clear()
        engine.reset_prefix_cache(reset_running_requests=True)

    def _count(self, request: Request, completion: Completion, cached: int, seconds: float) -> None:
        stats = self._stats
        stats.requests += 1
        stats.prompt_tokens += len(request.prompt_ids)
        stats.completion_tokens += len(completion.token_ids)
        stats.seconds += seconds
        stats.extra["cached_tokens"] = stats.extra.get("cached_tokens", 0) + cached


def engine_args(serving: Serving, transfer: str, options: dict[str, Any]) -> dict[str, Any]:
    """Fields of vLLM's `EngineArgs`, also the flags of `vllm serve`; `options` win."""
    lora: dict[str, Any] = {}
    if serving.lora.enabled:
        lora = {"enable_lora": True, "max_lora_rank": _rank(serving.lora.r), "max_loras": 2, "max_cpu_loras": 8}
    # On a CPU, vLLM 0.31 cannot split the prompt of a request that has a seed (CPU generators have no offset).
    whole = {"enable_chunked_prefill": False, "max_num_batched_tokens": max(4096, serving.max_context)}
    cpu = {} if torch.cuda.is_available() else {"enforce_eager": True, **whole}
    return {
        "model": serving.path,
        "dtype": serving.dtype,
        "max_model_len": serving.max_context,
        "seed": serving.seed,
        "enable_prefix_caching": True,
        "logprobs_mode": "processed_logprobs",
        "generation_config": "vllm",
        "weight_transfer_config": {"backend": transfer},
        "disable_log_stats": True,
        **lora,
        **cpu,
        **options,
    }


def _rank(rank: int) -> int:
    """The smallest adapter rank that vLLM reserves room for and that holds `rank`."""
    return next((size for size in (8, 16, 32, 64, 128, 256, 320, 512) if size >= rank), rank)


def sampling_params(request: Request, end_ids: Sequence[int]) -> Any:
    """vLLM's settings for one request: exact log-probs of the drawn tokens and of the watched ones."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    sampling, watch = request.sampling, list(dict.fromkeys(request.watch))
    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k or -1,
        max_tokens=sampling.max_tokens,
        seed=request.noise & INT64,
        logprobs=len(watch),
        logprob_token_ids=watch or None,
        detokenize=False,
        ignore_eos=True,  # our own end tokens are the only ones
        stop_token_ids=list(end_ids),
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def read_output(output: Any, request: Request, codec: Codec) -> Completion:
    """vLLM's `CompletionOutput` -> a completion with the text of our own codec."""
    ids = tuple(output.token_ids)
    reason = FINISH.get(output.finish_reason or "", "abort")
    rows = [{token: value.logprob for token, value in row.items()} for row in output.logprobs]
    watched = [tuple(row.get(token, -math.inf) for token in request.watch) for row in rows] if request.watch else []
    return Completion(
        ids,
        tuple(row[token] for row, token in zip(rows, ids, strict=True)),
        codec.decode(ids[:-1] if reason == "stop" else ids),
        reason,
        tuple(watched),
    )
