"""A small real server that speaks the protocols of vLLM and SGLang, in well-behaved and other variants.

    python -m arl_tangram.testing.model_server --port 8000 --protocol vllm --mib 8

It holds its "weights" and "cache" as files in the device folders it is given, answers completions
(the prompt reversed), chats and embeddings, sleeps and wakes, and says at ``/asked`` what it was asked
for that. `--fault` makes it break one promise.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

MIB = 1024 * 1024
FAULTS = (
    "never-ready",  #: it starts, and is never healthy
    "dies-at-start",
    "dies-on-sleep",
    "dies-on-wake",
    "dies-on-call",
    "hangs-on-wake",
    "hangs-on-sleep",
    "hangs-on-call",  #: and its health then hangs too
    "holds-memory",  #: it says that it sleeps, and keeps its memory
    "slow-release",  #: it says that it sleeps, and frees its memory a little later
    "huge-reply",  #: it answers a call with a gigabyte
    "bad-reply",  #: it answers a call with what is no JSON
    "refuses-sleep",
)
FOLDERS = "ARL_TANGRAM_DEVICE_FOLDERS"


class Model:
    """What it holds where: weights and cache, each half of its memory on every device."""

    def __init__(self, *, protocol: str, mib: int, fault: str, call_s: float) -> None:
        self.protocol, self.mib, self.fault, self.call_s = protocol, mib, fault, call_s
        self.folders = [Path(f) for f in os.environ.get(FOLDERS, "").split(os.pathsep) if f]
        self.lock = threading.Lock()
        self.awake: set[str] = set()
        self.loaded = False
        self.stuck = False
        self.asked: list[str] = []  # of its protocol of sleeping, in order

    def hold(self, part: str) -> None:
        for folder in self.folders:
            with (folder / part).open("wb") as file:
                file.write(b"\1" * (self.mib * MIB // 2))
        self.awake.add(part)

    def drop(self, part: str) -> None:
        for folder in self.folders:
            (folder / part).unlink(missing_ok=True)

    def start(self) -> None:
        for part in ("weights", "kv_cache"):
            self.hold(part)
        self.loaded = True

    def sleep(self, level: int) -> tuple[int, Any]:
        fail(self, "sleep")
        if self.fault == "refuses-sleep":
            return 500, {"error": "not now"}
        self.awake.clear()
        self.loaded = level == 1
        if self.fault == "slow-release":
            threading.Timer(0.3, self._drop_all).start()
        elif self.fault != "holds-memory":
            self._drop_all()
        return 200, {}

    def wake(self, tags: list[str]) -> tuple[int, Any]:
        fail(self, "wake")
        for part in tags or ["weights", "kv_cache"]:
            if part == "kv_cache" and not self.loaded:
                return 500, {"error": "the cache was asked for before the weights were loaded"}
            self.hold(part)
        return 200, {}

    def reload(self) -> tuple[int, Any]:
        if "weights" not in self.awake:
            return 500, {"error": "there is no room for the weights: wake them up first"}
        if "kv_cache" in self.awake:
            return 500, {"error": "the cache is in the way of the weights"}
        self.loaded = True
        return 200, {"results": [None]}

    def _drop_all(self) -> None:
        for part in ("weights", "kv_cache"):
            self.drop(part)

    def answer(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        fail(self, "call", body)
        if len(self.awake) < 2 or not self.loaded:
            return 503, {"error": "the model sleeps"}
        time.sleep(body.get("sleep_s", self.call_s))
        if path == "/v1/embeddings":
            given = body.get("input")
            texts = [given] if isinstance(given, str) else list(given or ())
            rows = [{"embedding": [b / 255 for b in _digest(text)]} for text in texts]
            return 200, {"data": rows, "model": "reverse"}
        if path == "/v1/chat/completions":
            messages = body.get("messages")
            if not messages:
                return 400, {"error": "messages: there are none"}
            text = messages[-1]["content"][::-1]
            return 200, {"choices": [{"message": {"role": "assistant", "content": text}}]}
        return 200, {"choices": [{"text": str(body.get("prompt", ""))[::-1]}], "pid": os.getpid()}


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:8]


def fail(model: Model, what: str, body: Mapping[str, Any] | None = None) -> None:
    """Die or hang here if that is the fault; a probe (one token) is answered before."""
    if body is not None and body.get("max_tokens") == 1:
        return
    if model.fault == f"dies-on-{what}":
        os._exit(70)
    if model.fault == f"hangs-on-{what}":
        model.stuck = True
        time.sleep(3600)


class Exchange(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    model: Model

    def do_GET(self) -> None:
        model = self.model
        while model.stuck:
            time.sleep(3600)
        match urlsplit(self.path).path:
            case "/health":
                self._say(503 if model.fault == "never-ready" else 200, {})
            case "/v1/models":
                self._say(200, {"data": [{"id": "reverse"}]})
            case "/is_sleeping" if model.protocol == "vllm":
                self._say(200, {"is_sleeping": len(model.awake) < 2})
            case _:
                self._say(404, {"error": "no such path"})

    def do_POST(self) -> None:
        model = self.model
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if url.path.startswith("/v1/"):
            if model.fault == "huge-reply" and body.get("max_tokens") != 1:
                self._flood()
                return
            if model.fault == "bad-reply" and body.get("max_tokens") != 1:
                self._send(200, b"<html>")
                return
            self._say(*model.answer(url.path, body))
            return
        if url.path == "/asked":
            self._say(200, model.asked)
            return
        with model.lock:
            model.asked.append(self.path)
            match model.protocol, url.path:
                case "vllm", "/sleep":
                    self._say(*model.sleep(int(query.get("level", ["1"])[0])))
                case "vllm", "/wake_up":
                    self._say(*model.wake(query.get("tags", [])))
                case "vllm", "/collective_rpc" if body == {"method": "reload_weights"}:
                    self._say(*model.reload())
                case "sglang", "/release_memory_occupation":
                    self._say(*model.sleep(1))
                case "sglang", "/resume_memory_occupation":
                    self._say(*model.wake([]))
                case _:
                    self._say(404, {"error": "no such path"})

    def _say(self, status: int, body: Any) -> None:
        self._send(status, json.dumps(body).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _flood(self) -> None:
        self.send_response(200)
        self.send_header("content-length", str(1024 * MIB))
        self.end_headers()
        try:
            for _ in range(1024):
                self.wfile.write(b" " * MIB)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--protocol", choices=["vllm", "sglang", "none"], default="vllm")
    parser.add_argument("--mib", type=int, default=2)
    parser.add_argument("--fault", choices=FAULTS, default="")
    parser.add_argument("--call-s", type=float, default=0.0)
    options = parser.parse_args()
    if options.fault == "dies-at-start":
        sys.exit("no such model: teacher-9")
    model = Model(
        protocol=options.protocol, mib=options.mib, fault=options.fault, call_s=options.call_s
    )
    model.start()
    Exchange.model = model
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Exchange)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
