"""What happened. Facts in the past tense, each with the time the driver saw it."""

from __future__ import annotations

from dataclasses import dataclass

from .model import (
    Action,
    ActionId,
    Environment,
    EnvironmentId,
    InstanceId,
    Node,
    NodeId,
    Outcome,
    Quota,
    Seconds,
    Service,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeJoined:
    at: Seconds
    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost:
    """A node is gone with all that ran on it."""

    at: Seconds
    node: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRequested:
    at: Seconds
    environment: Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentOpened:
    at: Seconds
    environment: EnvironmentId
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFailed:
    """An environment could not be opened, or broke while it was open; what it held is gone."""

    at: Seconds
    environment: EnvironmentId
    reason: str
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseRequested:
    """The environment is no longer wanted; its waiting actions are cancelled, running ones stopped."""

    at: Seconds
    environment: EnvironmentId


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentClosed:
    at: Seconds
    environment: EnvironmentId


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSubmitted:
    at: Seconds
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionExited:
    """An attempt ended and everything it held is free again.

    `outcome` is what the executor saw; LOST asks for another attempt if any are left.
    """

    at: Seconds
    action: ActionId
    attempt: int
    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    at: Seconds
    action: ActionId


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaDeclared:
    at: Seconds
    quota: Quota


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaThrottled:
    """The other side of a quota refused a call and asked for a pause."""

    at: Seconds
    quota: str
    retry_after_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDeclared:
    at: Seconds
    service: Service


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRestored:
    """An instance is ready to answer."""

    at: Seconds
    instance: InstanceId


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceEvicted:
    """An instance is off its devices, and their memory was seen to be free."""

    at: Seconds
    instance: InstanceId


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFailed:
    """An instance died, or could not be restored or evicted; its devices are free again.

    Its calls end with `ActionExited` of their own.
    """

    at: Seconds
    instance: InstanceId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Woke:
    """The time that a `WakeAt` asked for has come."""

    at: Seconds


Event = (
    NodeJoined
    | NodeLost
    | EnvironmentRequested
    | EnvironmentOpened
    | EnvironmentFailed
    | CloseRequested
    | EnvironmentClosed
    | ActionSubmitted
    | ActionExited
    | CancelRequested
    | QuotaDeclared
    | QuotaThrottled
    | ServiceDeclared
    | ServiceRestored
    | ServiceEvicted
    | InstanceFailed
    | Woke
)
