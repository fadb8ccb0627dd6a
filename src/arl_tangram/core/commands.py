"""What to do about it. Imperatives, carried out by a driver in the order given, never by the core."""

from __future__ import annotations

from dataclasses import dataclass

from .model import (
    ActionId,
    Environment,
    EnvironmentId,
    InstanceId,
    Lease,
    NodeId,
    Outcome,
    Seconds,
    Service,
)


@dataclass(frozen=True, slots=True)
class Start:
    """Run this attempt; answer with `ActionExited`."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Resize:
    """The running attempt now holds this lease's grant; effective at once, no answer expected."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Stop:
    """End this attempt and all it started; answer with `ActionExited`."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Resolve:
    """The action ended for good; tell whoever waits."""

    action: ActionId
    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OpenEnvironment:
    """Make this environment; answer with `EnvironmentOpened` or `EnvironmentFailed` and its attempt.

    `cores` are the core ids it owns for life: empty unless its needs include CPU.
    """

    environment: Environment
    node: NodeId
    attempt: int = 1
    cores: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CloseEnvironment:
    """End this environment and all in it; answer with `EnvironmentClosed`."""

    environment: EnvironmentId
    node: NodeId


@dataclass(frozen=True, slots=True)
class ResolveEnvironment:
    """The environment will never open, or broke; tell whoever waits. No closing is to be expected."""

    environment: EnvironmentId
    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RestoreService:
    """Bring an instance up on these devices; answer with `ServiceRestored` or `InstanceFailed`.

    `cold` means that the node has no copy yet and the service must be loaded from scratch.
    """

    service: Service
    instance: InstanceId
    node: NodeId
    devices: tuple[int, ...]
    cold: bool = False


@dataclass(frozen=True, slots=True)
class EvictService:
    """Take an instance off its devices; answer with `ServiceEvicted` or `InstanceFailed`.

    It is idle, or not up yet and given up. `forget` means that its host copy must go too.
    """

    service: str
    instance: InstanceId
    node: NodeId
    forget: bool = False


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send `Woke` at this time; a later `WakeAt` replaces an earlier one."""

    at: Seconds


Command = (
    Start
    | Resize
    | Stop
    | Resolve
    | OpenEnvironment
    | CloseEnvironment
    | ResolveEnvironment
    | RestoreService
    | EvictService
    | WakeAt
)
