"""A process that speaks HTTP like a vLLM server, in a tenth of a second: it completes with the weights' version.

Run: `python stand_in.py --port N ...`; it ends when a prompt starts with 666.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

calls: list[str] = []


class Handler(BaseHTTPRequestHandler):
    """Answers what the replica client asks."""

    def do_GET(self) -> None:
        self.answer({})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or "{}")
        calls.append(self.path.split("?")[0].removeprefix("/"))
        if not self.path.endswith("/completions"):
            if self.path == "/update_weights":
                calls.append(Path(body["update_info"]["path"]).name)
            return self.answer({})
        fuse = Path(os.environ["STAND_IN_FUSE"])
        if body["prompt"][0] == 666 and fuse.exists():
            fuse.unlink()
            os._exit(1)
        pushes = calls.count("finish_weight_update")
        logprobs = {"token_logprobs": [-0.5, -0.1], "top_logprobs": [{}, {}]}
        choice = {"text": "", "token_ids": [10 + pushes, 1], "logprobs": logprobs, "finish_reason": "stop"}
        return self.answer({"choices": [choice]})

    def answer(self, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
