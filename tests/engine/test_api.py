"""The API engine against a real HTTP server on this machine that answers as told."""

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import engine_contract as contract
import pytest

from mh_train.engine.api import ApiEngine, ChatCodec
from mh_train.engine.base import EngineError, Message, Request, Sampling
from mh_train.engine.codec import HFCodec

CHAT: list[Message] = [{"role": "user", "content": "What is där? 日本"}]


class Server:
    """Answers with the next of `script`, (status, JSON or text, headers); the last one for ever. Keeps what it got."""

    def __init__(self) -> None:
        self.script: list[tuple[int, Any, dict[str, str]]] = []
        self.got: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.got.append((self.path, body, dict(self.headers)))
                status, answer, headers = outer.script.pop(0) if len(outer.script) > 1 else outer.script[0]
                data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Stay silent."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def says(self, answer: Any, status: int = 200, **headers: str) -> None:
        self.script.append((status, answer, headers))


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()
    thread = threading.Thread(target=served.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    served.http.shutdown()
    served.http.server_close()
    thread.join()


def spoken(text: str, reason: str = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": reason, **more}]}


def ask(engine: ApiEngine, **settings: Any) -> Any:
    request = Request(tuple(engine.codec.encode(CHAT)), Sampling(**{"max_tokens": 9, **settings}), noise=2**63 + 5)
    return contract.answers(engine, [request])[0]


def test_chat_sends_the_messages_and_the_sampling(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sesame")
    server.says(spoken("Hier. 日本"))
    engine = ApiEngine(server.url + "/", "some-model", key_env="SOME_KEY")
    answer = ask(engine, temperature=0.4, top_p=0.9, top_k=3)
    assert (answer.text, answer.finish_reason) == ("Hier. 日本", "stop")
    assert engine.codec.decode(answer.token_ids) == answer.text
    assert len(answer.logprobs) == len(answer.token_ids)
    path, body, headers = server.got[0]
    assert path == "/v1/chat/completions"
    assert body["messages"] == CHAT
    settings = {"model": "some-model", "temperature": 0.4, "top_p": 0.9, "top_k": 3, "max_tokens": 9, "seed": 5}
    assert body.items() >= settings.items()
    assert headers["Authorization"] == "Bearer sesame"


def test_each_event_loop_gets_its_own_connections(server: Server) -> None:
    server.says(spoken("a"))
    engine = ApiEngine(server.url, "m")
    assert [ask(engine).text, ask(engine).text] == ["a", "a"]
    assert engine.take_stats().requests == 2


def test_chat_reads_score_tokens_where_the_server_offers_them(server: Server) -> None:
    top = [{"token": "4", "logprob": -0.2}, {"token": "5", "logprob": -1.8}]
    content = [
        {"token": "score", "logprob": -0.1, "top_logprobs": []},
        {"token": "4", "logprob": -0.2, "top_logprobs": top},
    ]
    server.says(spoken("score4", "length", logprobs={"content": content}))
    engine = ApiEngine(server.url, "m")
    four, five, three = engine.codec.encode_text("453")
    request = Request(tuple(engine.codec.encode(CHAT)), Sampling(), watch=(four, five, three))
    answer = contract.answers(engine, [request])[0]
    assert answer.watched[5] == (-0.2, -1.8, -math.inf)
    assert answer.logprobs[5] == -0.2
    assert len(answer.watched) == len(answer.token_ids) == 6
    assert server.got[0][1].items() >= {"logprobs": True, "top_logprobs": 20}.items()


def test_completions_send_and_take_token_ids(server: Server, tokenizer: Any) -> None:
    tops = [{"token_id:7": -0.5, "token_id:8": -1.0}, {"token_id:1": -0.1}]
    logprobs = {"token_logprobs": [-0.5, -0.1], "top_logprobs": tops}
    choice = {"text": "bread", "token_ids": [7, 1], "logprobs": logprobs, "finish_reason": "stop"}
    server.says({"choices": [choice]})
    engine = ApiEngine(server.url, "m", codec=HFCodec(tokenizer), endpoint="completions")
    answer = contract.answers(engine, [Request((5, 6), Sampling(), watch=(8, 7))])[0]
    assert (answer.token_ids, answer.logprobs, answer.text) == ((7, 1), (-0.5, -0.1), "bread")
    assert answer.watched == ((-1.0, -0.5), (-math.inf, -math.inf))
    path, body, _ = server.got[0]
    assert path == "/v1/completions"
    assert body["prompt"] == [5, 6] and body["return_token_ids"]


def test_completions_without_token_ids_are_refused(server: Server, tokenizer: Any) -> None:
    server.says({"choices": [{"text": "bread", "finish_reason": "stop"}]})
    engine = ApiEngine(server.url, "m", codec=HFCodec(tokenizer), endpoint="completions")
    with pytest.raises(EngineError, match="returns no token ids"):
        ask(engine)
    with pytest.raises(ValueError, match="needs the model's tokenizer"):
        ApiEngine(server.url, "m", endpoint="completions")


def test_what_may_pass_is_tried_again_counted_and_logged(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.says("busy", 429, **{"retry-after": "0.01"})
    server.says("down", 503)
    server.says(spoken("at last"))
    engine = ApiEngine(server.url, "m", backoff_s=0.001)
    with caplog.at_level(logging.WARNING):
        assert ask(engine).text == "at last"
    assert engine.take_stats().extra == {"retries": 2}
    assert "429: busy; next try in 0.0" in caplog.messages[0] and "503: down" in caplog.messages[1]


def test_a_server_that_stays_down_is_an_error_with_its_last_words(server: Server) -> None:
    server.says("out of memory", 500)
    with pytest.raises(EngineError, match="failed 3 times, last with HTTP 500: out of memory"):
        ask(ApiEngine(server.url, "m", retries=2, backoff_s=0.001))
    assert len(server.got) == 3


def test_no_server_at_all() -> None:
    with pytest.raises(EngineError, match=r"failed 2 times, last with ConnectError.*Is the server running"):
        ask(ApiEngine("http://127.0.0.1:9/v1", "m", retries=1, backoff_s=0.001))


def test_a_slow_server_times_out(server: Server) -> None:
    server.says(spoken("a"))
    engine = ApiEngine(server.url, "m", retries=0, timeout_s=1e-6)
    with pytest.raises(EngineError, match="Timeout"):
        ask(engine)


def test_a_wrong_key_is_not_tried_again(server: Server) -> None:
    server.says("who are you", 401)
    with pytest.raises(EngineError, match=r"HTTP 401: who are you Put a valid key into \$OPENAI_API_KEY"):
        ask(ApiEngine(server.url, "m"))
    assert len(server.got) == 1


@pytest.mark.parametrize("nonsense", ["<html>", "[]", '{"choices": []}', '{"choices": [{}]}'])
def test_answers_that_are_no_completion(server: Server, nonsense: str) -> None:
    server.says(nonsense)
    with pytest.raises(EngineError, match=r"other than JSON|no completion"):
        ask(ApiEngine(server.url, "m"))


def test_other_finish_reasons_are_aborts(server: Server) -> None:
    server.says(spoken("", "content_filter"))
    assert ask(ApiEngine(server.url, "m")).finish_reason == "abort"


def test_the_chat_codec_carries_messages_through_ids() -> None:
    codec = ChatCodec()
    assert codec.messages(codec.encode(CHAT)) == CHAT
