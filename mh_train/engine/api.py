"""Generation by an OpenAI-compatible server: a hosted model, a teacher, or somebody's `vllm serve`.

Why: an external reconstructor or verifier is only another engine. Two endpoints: `chat` takes messages (no tokenizer
needed) and `completions` takes token ids and must return token ids (vLLM does). Invariants: text is never re-tokenised;
every failed try is counted (`stats.extra["retries"]`) and logged with its cause; after the last one an `EngineError`
tells what the server said.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import time
from collections.abc import Sequence
from typing import Any, Literal

import httpx

from mh_train.engine.base import Codec, Completion, Engine, EngineError, EngineStats, FinishReason, Message, Request
from mh_train.engine.scripted import CharCodec

log = logging.getLogger(__name__)

MOST_TOP_LOGPROBS = 20  # what OpenAI allows
FINISH: dict[str, FinishReason] = {"stop": "stop", "length": "length"}


class ChatCodec(CharCodec):
    """Carries chat messages through `prompt_ids` as the characters of their JSON; one id is one character."""

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Chat messages -> ids that `messages` turns back."""
        return self.encode_text(json.dumps(list(messages), ensure_ascii=False))

    def messages(self, ids: Sequence[int]) -> list[Message]:
        """Ids of `encode` -> chat messages."""
        return json.loads(self.decode(ids))


class ApiEngine(Engine):
    """Completes prompts on a server at `url` (".../v1"). The key is read from the environment variable `key_env`.

    `endpoint` "chat": ids of completions are characters (`ChatCodec`); log-probs are known only where a token is one
    character, as score tokens are, and 0 elsewhere, so such completions are not for training. `endpoint`
    "completions": `codec` is the model's own and the server must honour `return_token_ids`. After a failed try come
    `retries` more, the first after `backoff_s`, then after twice as long each time, or after what `Retry-After` asks.
    """

    name = "api"

    def __init__(
        self,
        url: str,
        model: str,
        codec: Codec | None = None,
        endpoint: Literal["chat", "completions"] = "chat",
        key_env: str = "OPENAI_API_KEY",
        max_context: int = 32768,
        concurrency: int = 64,
        timeout_s: float = 120.0,
        retries: int = 5,
        backoff_s: float = 1.0,
    ) -> None:
        if endpoint == "completions" and codec is None:
            raise ValueError("endpoint=completions sends token ids and needs the model's tokenizer; use endpoint=chat.")
        self.url, self.model, self.key_env = url.rstrip("/"), model, key_env
        self.chat = ChatCodec() if endpoint == "chat" else None
        self.codec: Codec = self.chat or codec or CharCodec()
        self.max_context, self.concurrency, self.timeout_s = max_context, concurrency, timeout_s
        self.retries, self.backoff_s = retries, backoff_s
        self._client: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None
        self._stats = EngineStats()

    async def generate(self, request: Request) -> Completion:
        """Complete one prompt; raises `EngineError` when the server refuses it or stays unreachable."""
        started = time.perf_counter()
        answer = await self._post("/chat/completions" if self.chat else "/completions", self._body(request))
        try:
            choice = answer["choices"][0]
            completion = self._from_chat(choice, request) if self.chat else self._from_completions(choice, request)
        except (KeyError, IndexError, TypeError) as error:
            raise EngineError(f"{self.url} answered no completion ({error!r}); is it OpenAI-compatible?") from error
        self._stats.requests += 1
        self._stats.prompt_tokens += len(request.prompt_ids)
        self._stats.completion_tokens += len(completion.token_ids)
        self._stats.seconds += time.perf_counter() - started
        return completion

    def take_stats(self) -> EngineStats:
        """Counters since the previous call, reset; with `endpoint` "chat" tokens are characters."""
        taken, self._stats = self._stats, EngineStats()
        return taken

    async def close(self) -> None:
        """Close the connections; those of an event loop that is gone are gone with it."""
        if self._client is not None and self._client[0] is asyncio.get_running_loop():
            await self._client[1].aclose()
        self._client = None

    def _body(self, request: Request) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self.model,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": request.noise & 0x7FFFFFFF,
        }
        if sampling.top_k:
            body["top_k"] = sampling.top_k
        if self.chat:
            body["messages"] = self.chat.messages(request.prompt_ids)
            if request.watch:
                body |= {"logprobs": True, "top_logprobs": MOST_TOP_LOGPROBS}
            return body
        most = MOST_TOP_LOGPROBS if request.watch else 0
        ids = {"return_token_ids": True, "return_tokens_as_token_ids": True}
        return body | {"prompt": list(request.prompt_ids), "logprobs": most} | ids

    def _from_chat(self, choice: dict[str, Any], request: Request) -> Completion:
        """Characters of the answer; where a token is one character long, its log-prob and the watched ones."""
        text = choice["message"]["content"] or ""
        logprobs, watched = [0.0] * len(text), [[-math.inf] * len(request.watch) for _ in text]
        at = 0
        for entry in (choice.get("logprobs") or {}).get("content") or ():
            if len(entry["token"]) == 1 and text[at : at + 1] == entry["token"]:
                logprobs[at] = entry["logprob"]
                seen = {top["token"]: top["logprob"] for top in entry.get("top_logprobs", ())}
                watched[at] = [seen.get(self.codec.decode([token]), -math.inf) for token in request.watch]
            at += len(entry["token"])
        rows = tuple(tuple(row) for row in watched) if request.watch else ()
        ids, reason = self.codec.encode_text(text), FINISH.get(choice.get("finish_reason", ""), "abort")
        if reason == "stop":
            ids, logprobs = [*ids, *self.codec.end_ids()[:1]], [*logprobs, 0.0]
            rows = (*rows, (-math.inf,) * len(request.watch)) if request.watch else ()
        return Completion(tuple(ids), tuple(logprobs), text, reason, rows)

    def _from_completions(self, choice: dict[str, Any], request: Request) -> Completion:
        if choice.get("token_ids") is None or choice.get("logprobs") is None:
            raise EngineError(
                f"{self.url} returns no token ids or log-probs for /completions; serve the model with vLLM, or use "
                "endpoint=chat where no training needs them."
            )
        ids, logprobs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
        tops = choice["logprobs"].get("top_logprobs") or [{}] * len(ids)
        watched = [[top.get(f"token_id:{token}", -math.inf) for token in request.watch] for top in tops]
        reason = FINISH.get(choice.get("finish_reason", ""), "abort")
        rows = tuple(tuple(row) for row in watched) if request.watch else ()
        return Completion(tuple(ids), tuple(logprobs), choice["text"], reason, rows)

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        """POST with retries on what may pass: no connection, time-out, 408, 429 and 5xx."""
        problem = ""
        for attempt in range(self.retries + 1):
            wait = self.backoff_s * 2**attempt
            try:
                response = await self._http().post(self.url + path, json=body)
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if response.is_success:
                    return _json(response, self.url)
                problem = f"HTTP {response.status_code}: {response.text[:300]}"
                if response.status_code not in (408, 429) and response.status_code < 500:
                    raise EngineError(f"{self.url} refused the request. {problem}{self._key_advice(response)}")
                wait = _retry_after(response) or wait
            if attempt < self.retries:
                self._stats.extra["retries"] = self._stats.extra.get("retries", 0) + 1
                log.warning("%s%s: %s; next try in %.1f s", self.url, path, problem, wait)
                await asyncio.sleep(wait)
        raise EngineError(f"{self.url} failed {self.retries + 1} times, last with {problem}. Is the server running?")

    def _http(self) -> httpx.AsyncClient:
        """The client of the running event loop (connections do not survive their loop)."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._client[0] is not loop:
            key = os.environ.get(self.key_env, "")
            self._client = (
                loop,
                httpx.AsyncClient(
                    headers={"Authorization": f"Bearer {key}"} if key else {},
                    timeout=httpx.Timeout(self.timeout_s, pool=None),
                    limits=httpx.Limits(max_connections=self.concurrency),
                ),
            )
        return self._client[1]

    def _key_advice(self, response: httpx.Response) -> str:
        return f" Put a valid key into ${self.key_env}." if response.status_code in (401, 403) else ""


def _json(response: httpx.Response, url: str) -> Any:
    try:
        return response.json()
    except ValueError as error:
        raise EngineError(f"{url} answered something other than JSON: {response.text[:200]!r}") from error


def _retry_after(response: httpx.Response) -> float:
    """Seconds that the server asks to wait; 0 when it asks nothing or names a date."""
    value = response.headers.get("retry-after", "")
    return float(value) if value.replace(".", "", 1).isdigit() else 0.0
