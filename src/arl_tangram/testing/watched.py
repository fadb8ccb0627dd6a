"""A kernel driven by short sentences, with every answer checked against a ledger."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.commands import Command, OpenEnvironment, Resize, ResolveEnvironment, Start
from ..core.estimates import Estimates
from ..core.events import (
    ActionExited,
    ActionSubmitted,
    CancelRequested,
    CloseRequested,
    EnvironmentClosed,
    EnvironmentFailed,
    EnvironmentOpened,
    EnvironmentRequested,
    Event,
    NodeJoined,
    NodeLost,
    Woke,
)
from ..core.kernel import Kernel
from ..core.model import (
    Action,
    ActionId,
    Environment,
    EnvironmentId,
    Lease,
    Node,
    NodeId,
    Outcome,
    Seconds,
)
from ..core.phases import Phase
from ..core.policy import Policy
from ..policies.registry import DEFAULT, policy_named
from .ledger import Ledger


class Watched:
    """Feeds a kernel; after each event the ledger and `Kernel.check` must agree with it.

    With `thorough=False` only the ledger follows: for crowds, since a check walks all there is.

    Attributes:
        now: the time of the next event; tests move it.
        journal: every event with the commands it caused.
    """

    def __init__(
        self,
        *nodes: Node,
        policy: Policy | str = DEFAULT,
        estimates: Estimates | None = None,
        opening_limit: int = 8,
        patience_s: Seconds = 2.0,
        thorough: bool = True,
    ) -> None:
        self._thorough = thorough
        chosen = policy_named(policy) if isinstance(policy, str) else policy
        self.kernel = Kernel(chosen, estimates, opening_limit=opening_limit, patience_s=patience_s)
        self.ledger = Ledger(opening_limit)
        self.now: Seconds = 0.0
        self.journal: list[tuple[Event, list[Command]]] = []
        for node in nodes:
            self.join(node)

    def feed(self, event: Event) -> list[Command]:
        """Hand an event over, and check what comes back."""
        commands = self.kernel.handle(event)
        self.journal.append((event, commands))
        self.ledger.follow(event, commands)
        if not self._thorough:
            return commands
        self.kernel.check()
        for action in self.ledger.unresolved():
            believed, told = self.kernel.phase_of(action), self.ledger.phase_of(action)
            assert believed is told, f"{action} is {believed}, its commands say {told}"
        return commands

    # -- what happens ------------------------------------------------------------------------

    def join(self, node: Node) -> list[Command]:
        return self.feed(NodeJoined(at=self.now, node=node))

    def lose(self, node: str) -> list[Command]:
        return self.feed(NodeLost(at=self.now, node=NodeId(node)))

    def request(self, environment: Environment) -> list[Command]:
        return self.feed(EnvironmentRequested(at=self.now, environment=environment))

    def opened(self, environment: str) -> list[Command]:
        name = EnvironmentId(environment)
        attempt = self.ledger.places[name].attempt
        return self.feed(EnvironmentOpened(at=self.now, environment=name, attempt=attempt))

    def open(self, environment: Environment) -> list[Command]:
        """Ask for an environment and let it open at once."""
        return [*self.request(environment), *self.opened(environment.id)]

    def broke(self, environment: str, reason: str = "it broke") -> list[Command]:
        name = EnvironmentId(environment)
        attempt = self.ledger.places[name].attempt
        return self.feed(
            EnvironmentFailed(at=self.now, environment=name, reason=reason, attempt=attempt)
        )

    def close(self, environment: str) -> list[Command]:
        return self.feed(CloseRequested(at=self.now, environment=EnvironmentId(environment)))

    def closed(self, environment: str) -> list[Command]:
        return self.feed(EnvironmentClosed(at=self.now, environment=EnvironmentId(environment)))

    def submit(self, action: Action) -> list[Command]:
        return self.feed(ActionSubmitted(at=self.now, action=action))

    def exit(
        self, action: str, outcome: Outcome = Outcome.SUCCEEDED, *, reason: str = ""
    ) -> list[Command]:
        """End the attempt that runs."""
        lease = self.lease(action)
        return self.feed(
            ActionExited(
                at=self.now,
                action=lease.action,
                attempt=lease.attempt,
                outcome=outcome,
                reason=reason,
            )
        )

    def cancel(self, action: str) -> list[Command]:
        return self.feed(CancelRequested(at=self.now, action=ActionId(action)))

    def wake(self) -> list[Command]:
        return self.feed(Woke(at=self.now))

    def wait(self, span_s: Seconds) -> None:
        """Let time pass; nothing else happens."""
        self.now += span_s

    # -- what is known -----------------------------------------------------------------------

    def lease(self, action: str) -> Lease:
        """What an action holds now."""
        return self.ledger.leases[ActionId(action)]

    def units(self, action: str) -> int:
        """Units of its key resource that an action holds now."""
        return self.lease(action).grant.units

    def running(self) -> list[str]:
        """The actions that hold a lease, in the order in which they started."""
        return list(self.ledger.leases)

    def phase(self, action: str) -> Phase:
        return self.kernel.phase_of(ActionId(action))

    def outcome(self, action: str) -> Outcome | None:
        return self.kernel.outcome_of(ActionId(action))

    def reason(self, action: str) -> str:
        """Why an action ended as it did."""
        return self.ledger.reasons[ActionId(action)]

    def drain(self, *, rounds: int = 1000) -> None:
        """Let everything that runs succeed, and what is submitted get its turn."""
        for _ in range(rounds):
            if not self.ledger.leases:
                return
            self.exit(next(iter(self.ledger.leases)))


def started(commands: Sequence[Command]) -> list[str]:
    """The actions that these commands start."""
    return [command.lease.action for command in commands if isinstance(command, Start)]


def resized(commands: Sequence[Command]) -> dict[str, int]:
    """The actions that these commands resize, and to how many units."""
    return {c.lease.action: c.lease.grant.units for c in commands if isinstance(c, Resize)}


def opening(commands: Sequence[Command]) -> dict[str, str]:
    """The environments that these commands open, and on which nodes."""
    return {c.environment.id: c.node for c in commands if isinstance(c, OpenEnvironment)}


def resolved_environments(commands: Sequence[Command]) -> dict[str, Outcome]:
    """The environments whose end these commands tell."""
    return {c.environment: c.outcome for c in commands if isinstance(c, ResolveEnvironment)}
