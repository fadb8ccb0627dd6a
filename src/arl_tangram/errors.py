"""Every exception of the package.

TangramError
├── RequestError          the caller's mistake; never retried
│   ├── InvalidAction         it could never run: no node fits it, or a field is wrong
│   ├── UnknownAction
│   ├── UnknownEnvironment
│   └── ConfigError
├── ActionError           raised by Result.check(); carries the outcome and the tail of the output
│   └── ActionFailed · ActionTimedOut · ActionOutOfMemory · ActionCancelled · ActionRejected · ActionLost
├── Unavailable           an executor could not do it now; safe to retry
└── InternalError         our bug; never caught
    ├── InvariantError
    └── PolicyError
"""

from __future__ import annotations


class TangramError(Exception):
    """Something went wrong in arl-tangram."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])


class RequestError(TangramError):
    """The request was wrong; sending it again will not help."""


class InvalidAction(RequestError, ValueError):
    """The action could never run as it was asked for."""


class UnknownAction(RequestError, LookupError):
    """No action has this id, or it ended so long ago that it was forgotten."""


class UnknownEnvironment(RequestError, LookupError):
    """No open environment has this id."""


class ConfigError(RequestError, ValueError):
    """A setting is wrong."""


class ActionError(TangramError):
    """An action did not succeed.

    Attributes:
        outcome: how it ended, as the value of `Outcome`.
        output_tail: the last part of what it printed.
    """

    def __init__(
        self, message: str | None = None, *, outcome: str = "", output_tail: str = ""
    ) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.output_tail = output_tail


class ActionFailed(ActionError):
    """The action ended with a non-zero exit status."""


class ActionTimedOut(ActionError, TimeoutError):
    """The action ran into its time limit."""


class ActionOutOfMemory(ActionError, MemoryError):
    """The action ran into its memory limit."""


class ActionCancelled(ActionError):
    """The action was cancelled."""


class ActionRejected(ActionError):
    """The action could never run on any node there is."""


class ActionLost(ActionError):
    """The infrastructure lost the action; it says nothing about the command."""


class Unavailable(TangramError):
    """This cannot be done now; it is safe to try again."""


class InternalError(TangramError):
    """A bug in arl-tangram: please report it with this message."""


class InvariantError(InternalError):
    """The books contradict themselves."""


class PolicyError(InternalError):
    """A policy proposed something impossible."""
