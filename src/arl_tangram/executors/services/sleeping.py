"""How model servers are told to leave their devices and to come back."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

Step = tuple[str, Mapping[str, Any] | None]
"""A path to post to, and what to post."""


class Sleeping(Protocol):
    """A protocol of sleeping and waking.

    Attributes:
        asleep: the path that says whether it sleeps; None if there is none.
        variables: what a server must be started with to offer it.
    """

    asleep: str | None
    variables: Mapping[str, str]

    def sleep(self, level: int) -> tuple[Step, ...]: ...

    def wake(self, level: int) -> tuple[Step, ...]: ...


class Vllm:
    """vLLM, started with ``--enable-sleep-mode``."""

    asleep: str | None = "/is_sleeping"
    variables: Mapping[str, str] = MappingProxyType({"VLLM_SERVER_DEV_MODE": "1"})

    def sleep(self, level: int) -> tuple[Step, ...]:
        return ((f"/sleep?level={level}", None),)

    def wake(self, level: int) -> tuple[Step, ...]:
        if level == 1:
            return (("/wake_up", None),)
        # The weights are loaded while the memory of the cache is free, for both need room.
        return (
            ("/wake_up?tags=weights", None),
            ("/collective_rpc", {"method": "reload_weights"}),
            ("/wake_up?tags=kv_cache", None),
        )


class Sglang:
    """SGLang, started with ``--enable-memory-saver``. It may answer before its memory is free."""

    asleep: str | None = None
    variables: Mapping[str, str] = MappingProxyType({})

    def sleep(self, level: int) -> tuple[Step, ...]:
        return (("/release_memory_occupation", {}),)

    def wake(self, level: int) -> tuple[Step, ...]:
        return (("/resume_memory_occupation", {}),)


PROTOCOLS: Mapping[str, Sleeping] = MappingProxyType({"vllm": Vllm(), "sglang": Sglang()})
