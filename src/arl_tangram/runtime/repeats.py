"""Answers that are kept for whoever asks again under the same id, so that nothing is sent twice."""

from __future__ import annotations

import asyncio
import copy
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, Generic, TypeVar

from ..errors import InvalidAction
from ..executors.api import Request, Response
from .call import Answer, CallWork
from .finishing import to_the_end

V = TypeVar("V")
KEPT = 4_096
KEPT_BYTES = 64 << 20
"""How many answers are kept, and what they and their requests may take in all."""
IDS = 262_144
"""How many ids are known to have been used after their answers are gone."""


class _Shared(Generic[V]):
    """One call that goes on for as long as anybody waits for it."""

    def __init__(self, request: Any, work: CallWork[V]) -> None:
        self.request = request
        self.answer = work.answer
        self.size_bytes = 0
        self._waiting = 0
        self._sending = asyncio.get_running_loop().create_task(work.result())
        self._sending.add_done_callback(self._sent)

    async def wait(self) -> Answer[V]:
        """An answer of the caller's own; the last one to go before it is there cancels the call."""
        self._waiting += 1
        try:
            answer = await asyncio.shield(self.answer)
        except asyncio.CancelledError:
            if self._waiting == 1:
                self._sending.cancel()
                await to_the_end(asyncio.wait([self._sending]))
            raise
        finally:
            self._waiting -= 1
        return replace(answer, value=apart(answer.value))

    def _sent(self, sending: asyncio.Task[Answer[V]]) -> None:
        if sending.cancelled():
            self.answer.cancel()  # unless the call has ended as cancelled
        elif (error := sending.exception()) is not None and not self.answer.done():
            self.answer.set_exception(error)  # it could not be submitted


class Repeats(Generic[V]):
    """The calls with an id of the caller's: those under way, and the last answers."""

    def __init__(self) -> None:
        self._under_way: dict[str, _Shared[V]] = {}
        self._kept: OrderedDict[str, _Shared[V]] = OrderedDict()
        self._bytes = 0
        self._gone: OrderedDict[str, None] = OrderedDict()

    def known(self, identity: str, request: Any) -> Awaitable[Answer[V]] | None:
        """The answer that a repeated id gets, or waits for; None if it is new here.

        Raises `InvalidAction` if it was the id of another request, or its answer is kept no more.
        """
        if identity in self._gone:
            raise InvalidAction(
                f"id={identity!r}: this was answered before, and the answer is no longer kept, only "
                f"the last {KEPT:,} are, of {KEPT_BYTES >> 20} MiB in all; keep those that you need "
                "longer, or ask again under a new id"
            )
        found = self._under_way.get(identity) or self._kept.get(identity)
        if found is None:
            return None
        if not same(found.request, request):
            raise InvalidAction(f"id={identity!r}: another request has this id")
        return found.wait()

    def first(self, request: Any, work: CallWork[V]) -> Awaitable[Answer[V]]:
        """The answer of this work, which begins; whoever repeats its id gets the same."""
        shared = self._under_way[work.action.id] = _Shared(request, work)
        shared.answer.add_done_callback(partial(self._ended, work.action.id))
        return shared.wait()

    def _ended(self, identity: str, answer: asyncio.Future[Answer[V]]) -> None:
        shared = self._under_way.pop(identity)
        shared.size_bytes = size_of(shared.request)
        if not answer.cancelled() and answer.exception() is None:
            shared.size_bytes += size_of(answer.result().value)
        if shared.size_bytes > KEPT_BYTES:  # for its sake none of the others is given up
            self._forget(identity)
            return
        self._kept[identity] = shared
        self._bytes += shared.size_bytes
        while len(self._kept) > KEPT or self._bytes > KEPT_BYTES:
            oldest, gone = self._kept.popitem(last=False)
            self._bytes -= gone.size_bytes
            self._forget(oldest)

    def _forget(self, identity: str) -> None:
        self._gone[identity] = None
        if len(self._gone) > IDS:
            self._gone.popitem(last=False)


def apart(value: Any) -> Any:
    """A copy of what JSON can say, or of a response, of which nothing is shared that can change."""
    if isinstance(value, Response):
        return replace(value, headers=dict(value.headers))
    root = [value]
    left: list[Any] = [root]
    copies: dict[int, Any] = {}  # something may hold itself
    while left:  # no recursion: a reply may be nested deeply
        held = left.pop()
        for place, each in list(held.items()) if isinstance(held, dict) else enumerate(held):
            if isinstance(each, dict | list | tuple):
                if id(each) not in copies:
                    copies[id(each)] = list(each) if isinstance(each, tuple) else copy.copy(each)
                    left.append(copies[id(each)])
                held[place] = copies[id(each)]
    return root[0]


def same(one: Any, other: Any) -> bool:
    """Whether two requests say the same in JSON: 1, 1.0 and True differ, (1,) and [1] do not."""
    seen: set[tuple[int, int]] = set()  # something may hold itself
    left = [(one, other)]
    while left:
        pair = a, b = left.pop()
        if (ids := (id(a), id(b))) in seen:
            continue
        seen.add(ids)
        match pair:
            case Request(), Request():
                left += [(getattr(a, each.name), getattr(b, each.name)) for each in fields(a)]
            case Mapping(), Mapping():
                if {(type(key), key) for key in a} != {(type(key), key) for key in b}:
                    return False
                left += [(value, b[key]) for key, value in a.items()]
            case list() | tuple(), list() | tuple():
                if len(a) != len(b):
                    return False
                left += zip(a, b, strict=True)
            case float(), float():
                if repr(a) != repr(b):  # not a number is itself
                    return False
            case _:
                if type(a) is not type(b) or a != b:
                    return False
    return True


def size_of(value: Any) -> int:
    """About how many bytes a request or a reply takes, at least 8 for what is no text."""
    size, left = 0, [value]
    seen: set[int] = set()  # something may hold itself
    while left:
        match each := left.pop():
            case Mapping() | list() | tuple() if id(each) in seen:
                pass
            case Response(body=body):
                size += len(body)
            case Request() as sent:
                left += [sent.url, sent.params, sent.headers, sent.json, sent.content]
            case str() | bytes() as text:
                size += len(text)
            case Mapping():
                seen.add(id(each))
                left += each.keys()
                left += each.values()
            case list() | tuple():
                seen.add(id(each))
                left += each
            case _:
                size += 8
    return size
