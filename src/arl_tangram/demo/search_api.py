"""A small web-search API over the demo's notes, with a rate limit that it means: 429 and `Retry-After`.

    python -m arl_tangram.demo.search_api --rate 20 --burst 20

It prints the port it listens on. Its answers depend on the query alone, and so does their delay.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..core.model import Seconds
from .notes import Note, notes

DELAY_MEDIAN_S, DELAY_SIGMA = 0.08, 0.5
"""How long a search takes, log-normal; a tenth of what a search on the web takes."""
MOST_FOUND = 3
_WORD = re.compile(r"[a-z]+")


class Index:
    """Finds notes by the words they share with a query, rare words first."""

    def __init__(self, found_in: Sequence[Note]) -> None:
        self._notes = found_in
        self._words = [Counter(_WORD.findall(f"{n.title} {n.text}".lower())) for n in found_in]
        holding = Counter(word for words in self._words for word in words)
        self._worth = {word: math.log(1 + len(found_in) / n) for word, n in holding.items()}

    def find(self, query: str) -> list[Note]:
        """The best notes, best first; none if no word is in any."""
        asked = _WORD.findall(query.lower())
        scores = [
            sum(self._worth[word] for word in asked if word in words) / math.sqrt(words.total())
            for words in self._words
        ]
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        return [self._notes[i] for i in order[:MOST_FOUND] if scores[i] > 0]


class Limit:
    """A token bucket: so many searches a second, and so many at once after a rest."""

    def __init__(self, rate_per_s: float, burst: int) -> None:
        self._rate, self._burst = rate_per_s, burst
        self._tokens, self._at = float(burst), time.monotonic()
        self._lock = threading.Lock()  # requests come in threads of their own
        self.answered = self.refused = 0

    def take(self) -> Seconds | None:
        """Take a token; how long to stay away if there is none."""
        with self._lock:
            now = time.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
            self._at = now
            if self._tokens >= 1:
                self._tokens -= 1
                self.answered += 1
                return None
            self.refused += 1
            return (1 - self._tokens) / self._rate


def delay_of(query: str) -> Seconds:
    """How long the search for a query takes."""
    return DELAY_MEDIAN_S * math.exp(DELAY_SIGMA * Random(query).gauss(0, 1))


class Search(BaseHTTPRequestHandler):
    """One connection: ``/search?q=…``, and ``/count`` to see how many were refused."""

    protocol_version = "HTTP/1.1"
    index: Index
    limit: Limit

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/count":
            self._say(200, {"answered": self.limit.answered, "refused": self.limit.refused})
            return
        query = parse_qs(url.query).get("q", [""])[0]
        if (wait_s := self.limit.take()) is not None:
            # The header has whole seconds (RFC 9110).
            self._say(429, {"error": "too many"}, {"retry-after": str(math.ceil(wait_s))})
            return
        time.sleep(delay_of(query))
        found = [{"title": note.title, "text": note.text} for note in self.index.find(query)]
        self._say(200, {"results": found})

    def _say(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "content-length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """Takes all that come at once."""

    daemon_threads = True
    request_queue_size = 256


def main() -> None:
    """Answer until we are ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--burst", type=int, required=True)
    options = parser.parse_args()
    Search.index = Index(notes().notes)
    Search.limit = Limit(options.rate, options.burst)
    server = Server(("127.0.0.1", 0), Search)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
