"""Answers that are kept for whoever asks again under the same id, so that nothing is sent twice."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from typing import Any, Generic, TypeVar

from ..errors import InvalidAction
from ..executors.api import Response
from .call import Answer, CallWork

V = TypeVar("V")
REMEMBERED = 4_096
REMEMBERED_BYTES = 64 << 20


class Repeats(Generic[V]):
    """The last 4,096 answers with an id of the caller's, and 64 MiB of them at most."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, tuple[Any, CallWork[V]]] = OrderedDict()
        self._bytes = 0

    def known(self, identity: str, request: Any) -> Awaitable[Answer[V]] | None:
        """The answer that a repeated id gets, or waits for; None if it is new here.

        Raises `InvalidAction` if it was the id of another request.
        """
        if (found := self._calls.get(identity)) is None:
            return None
        first, work = found
        if first != request:
            raise InvalidAction(f"id={identity!r}: another request has this id")
        return asyncio.shield(work.answer)

    def keep(self, request: Any, work: CallWork[V]) -> None:
        """Remember the answer of this work, which is to begin."""
        self._calls[work.action.id] = request, work
        work.answer.add_done_callback(self._remember)

    def _remember(self, answer: asyncio.Future[Answer[V]]) -> None:
        self._bytes += _size(answer)
        while len(self._calls) > REMEMBERED or self._bytes > REMEMBERED_BYTES:
            oldest, (_, work) = next(iter(self._calls.items()))
            if not work.answer.done():
                return
            self._bytes -= _size(work.answer)
            del self._calls[oldest]


def _size(answer: asyncio.Future[Answer[Any]]) -> int:
    return 0 if answer.exception() is not None else size_of(answer.result().value)


def size_of(value: Any) -> int:
    """About how many bytes a reply takes, at least 8."""
    match value:
        case Response():
            return len(value.body)
        case str() | bytes():
            return len(value)
        case Mapping():
            return sum(size_of(key) + size_of(each) for key, each in value.items())
        case list() | tuple():
            return sum(map(size_of, value))
        case _:
            return 8
