"""Keeps a PyTorch module in host memory, and answers with copies of it on devices."""

from __future__ import annotations

import gc
import importlib
import json
import os
import socketserver
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from .torch_answers import encoded
from .torch_devices import Place, places
from .torch_requests import Rejected, answer


class Worker:
    """The host copy, and the instances that were made from it."""

    def __init__(self, module: str, arguments: Mapping[str, Any]) -> None:
        package, _, name = module.partition(":")
        self.torch = importlib.import_module("torch")
        make: Any = importlib.import_module(package)
        for part in name.split("."):
            make = getattr(make, part)
        self.module = make(**arguments)
        self.module.eval()
        self.places: list[Place] = places(self.torch)
        for place in self.places[:1]:
            place.prepare(self.module)
        gc.collect()
        gc.freeze()  # what is here now stays: it need not be looked through at each eviction
        self.instances: dict[str, list[Any]] = {}
        self.lock = threading.Lock()  # the table of instances, against calls in other threads

    def restore(self, body: Mapping[str, Any]) -> Any:
        """Copy the weights to devices, each with all of them."""
        instance, mib = body["instance"], body["mib"]
        bytes_ = sum(
            t.numel() * t.element_size() for t in {id(t): t for t in tensors(self.module)}.values()
        )
        if mib and bytes_ > mib << 20:
            raise Rejected(
                f"its weights take {-(-bytes_ >> 20)} MiB on each device, and memory= says {mib}"
            )
        copies = [self.places[device].copy(self.module, instance) for device in body["devices"]]
        with self.lock:
            self.instances[instance] = copies
        return {"bytes": bytes_}

    def evict(self, body: Mapping[str, Any]) -> Any:
        """Take an instance off its devices; it may be there only in part."""
        with self.lock:
            copies = self.instances.pop(body["instance"], None)
        del copies
        gc.collect()
        for place in self.places:
            place.clear(body["instance"])
        return {}

    def call(self, body: Mapping[str, Any]) -> Any:
        """Answer a request with the copies of an instance."""
        with self.lock:
            copies = self.instances.get(body["instance"])
        if copies is None:
            raise Rejected(f"instance {body['instance']} is not on devices")
        return answer(self.torch, copies, body["request"])


def tensors(module: Any) -> list[Any]:
    """Everything that has to be on a device."""
    return [*module.parameters(), *module.buffers()]


class Exchange(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    worker: Worker

    def do_GET(self) -> None:
        self._say(200, b"{}")

    def do_POST(self) -> None:
        worker = self.worker
        work = {"/restore": worker.restore, "/evict": worker.evict, "/call": worker.call}
        try:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
            said = encoded(work[self.path](body))
        except Rejected as error:
            self._say(400, encoded({"error": str(error)}))
        except BaseException as error:  # noqa: BLE001  # the module is not ours: it may even sys.exit
            words = _words(error)
            if "CUDA error" in words:
                print(words, file=sys.stderr, flush=True)  # noqa: T201  # our last words
                os._exit(71)  # the devices are of no more use to this process
            self._say(422, encoded({"error": words}))
        else:
            self._say(200, said)

    def _say(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def address_string(self) -> str:
        return "the driver"


def _words(error: BaseException) -> str:
    """What an error says, which may be no more than what it is."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  # it is not ours, either
        return type(error).__name__


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Listens where only we can reach it."""

    daemon_threads = True
    request_queue_size = 128


def main(what: Mapping[str, Any]) -> None:
    """Load the module, then answer until we are ended."""
    Exchange.worker = Worker(what["module"], what["arguments"])
    Server(what["socket"], Exchange).serve_forever()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
