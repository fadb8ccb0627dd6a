"""Takes the compression off a reply piece by piece, so that a small one cannot fill the memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from ..errors import Unavailable

ACCEPTED = "gzip, deflate"
"""What an `Inflater` can read, as a request says it."""
PIECE = 65_536
"""No piece is longer, whatever it was compressed to."""
_EITHER = zlib.MAX_WBITS | 32  # finds out whether it is gzip or zlib
_BARE = -zlib.MAX_WBITS  # what some servers send and call deflate


class Inflater:
    """One body with this ``Content-Encoding``; raises `Unavailable` for what cannot be read."""

    def __init__(self, encoding: str) -> None:
        self._name = encoding.strip().lower()
        if self._name not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise Unavailable(f"the reply is encoded as {encoding!r}; it may be {ACCEPTED}")
        self._plain = self._name in {"", "identity"}
        self._inflate = zlib.decompressobj(_EITHER)
        self._begun = False

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """What this much more of it holds."""
        if self._plain:
            yield chunk
            return
        while chunk:
            if self._inflate.eof:  # another member of the same file
                self._inflate = zlib.decompressobj(_EITHER)
            try:
                piece = self._inflate.decompress(chunk, PIECE)
            except zlib.error as error:
                if self._begun or self._name != "deflate":
                    raise Unavailable(f"the reply is no {self._name}: {error}") from error
                self._inflate, self._begun = zlib.decompressobj(_BARE), True
                continue
            self._begun = True
            chunk = self._inflate.unconsumed_tail or self._inflate.unused_data
            yield piece

    def finish(self) -> None:
        """There is no more: raises `Unavailable` if there should be."""
        if self._begun and not self._inflate.eof:
            raise Unavailable(f"the reply ended in the middle of its {self._name}")
