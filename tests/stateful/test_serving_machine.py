"""Services, leases of devices, quotas, cores and memory at once, against an account kept from commands alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arl_tangram.core.events import (
    ActionExited,
    ActionSubmitted,
    CancelRequested,
    EnvironmentOpened,
    EnvironmentRequested,
    Event,
    InstanceFailed,
    NodeJoined,
    NodeLost,
    QuotaDeclared,
    QuotaThrottled,
    ServiceDeclared,
    ServiceEvicted,
    ServiceRestored,
    Woke,
)
from arl_tangram.core.kernel import Kernel
from arl_tangram.core.model import (
    CPU,
    GPU,
    MEMORY,
    Action,
    ActionId,
    Degree,
    Elastic,
    Environment,
    EnvironmentId,
    InstanceId,
    Node,
    NodeId,
    Outcome,
    Quota,
    Service,
    TaskId,
)
from arl_tangram.core.phases import Phase
from arl_tangram.core.speedup import Amdahl
from arl_tangram.policies.registry import policy_named
from arl_tangram.testing.ledger import Ledger

T = TypeVar("T")
index = st.integers(0, 1000)
QUOTA = Quota(name="key", rate_per_s=2.0, burst=2, concurrency=2)

degrees = st.sampled_from([(1,), (1, 2), (2, 4), (4,), (1, 2, 4), (8,), (1, 8)])


@st.composite
def services(draw: st.DrawFn, name: str) -> Service:
    widths = draw(degrees)
    known = draw(st.booleans())
    return Service(
        name=name,
        degrees=tuple(
            Degree(
                gpus=gpus,
                speedup=gpus**0.8,
                device_mib=draw(st.sampled_from([0, 100, 800])) // gpus,
                restore_s=4.0 / gpus if known else None,
            )
            for gpus in widths
        ),
        host_mib=draw(st.sampled_from([0, 300, 500])),
        slots=draw(st.sampled_from([1, 1, 2])),
        movable=draw(st.booleans()),
        load_s=draw(st.none() | st.just(8.0)),
        gpu_model=draw(st.sampled_from(["", "", "h"])),
        pinned=draw(st.sampled_from([(), (), (), (widths[0],), (widths[-1], widths[-1])])),
    )


def degree_of(gpus: int) -> Degree:
    return Degree(gpus=1 << (gpus - 1).bit_length(), speedup=1.0, restore_s=0.0)


def pick(things: Sequence[T], at: int) -> T:
    return things[at % len(things)]


class ServingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.kernel = self.fresh()
        self.ledger = Ledger(opening_limit=2)
        self.journal: list[tuple[Event, list[object]]] = []
        self.now = 0.0
        self.names = itertools.count()
        self.feed(QuotaDeclared(at=0.0, quota=QUOTA))

    @staticmethod
    def fresh() -> Kernel:
        return Kernel(policy_named("inflight"), opening_limit=2, patience_s=1.0)

    def feed(self, event: Event) -> None:
        commands = self.kernel.handle(event)
        self.journal.append((event, list(commands)))
        self.ledger.follow(event, commands)

    # -- nodes and services --------------------------------------------------------------------

    @initialize(gpus=st.sampled_from([1, 2, 4, 6, 8]))
    def a_first_node(self, gpus: int) -> None:
        self.a_node_joins(gpus, 800, "h", 1000)

    @precondition(lambda self: len(self.ledger.nodes) < 3)
    @rule(
        gpus=st.sampled_from([0, 1, 2, 6, 8]),
        gpu_mib=st.sampled_from([100, 800]),
        model=st.sampled_from(["h", "a"]),
        memory=st.sampled_from([400, 1000]),
    )
    def a_node_joins(self, gpus: int, gpu_mib: int, model: str, memory: int) -> None:
        node = Node(
            id=NodeId(f"n{next(self.names)}"),
            capacity={CPU: 2000, MEMORY: memory},
            gpus=gpus,
            gpu_mib=gpu_mib,
            gpu_model=model,
        )
        self.feed(NodeJoined(at=self.now, node=node))

    @precondition(lambda self: len(self.ledger.nodes) > 1)
    @rule(at=index)
    def a_node_is_lost(self, at: int) -> None:
        self.feed(NodeLost(at=self.now, node=pick(list(self.ledger.nodes), at)))

    @precondition(lambda self: len(self.ledger.instances.services) < 4)
    @rule(data=st.data())
    def a_service_is_declared(self, data: st.DataObject) -> None:
        name = f"s{len(self.ledger.instances.services)}"
        self.feed(ServiceDeclared(at=self.now, service=data.draw(services(name))))

    # -- instances -------------------------------------------------------------------------------

    def instances(self, state: str) -> list[InstanceId]:
        return [name for name, up in self.ledger.instances.up.items() if up.state == state]

    @precondition(lambda self: self.instances("restoring"))
    @rule(at=index)
    def an_instance_is_restored(self, at: int) -> None:
        self.feed(ServiceRestored(at=self.now, instance=pick(self.instances("restoring"), at)))

    @precondition(lambda self: self.instances("evicting"))
    @rule(at=index)
    def an_instance_that_was_given_up_is_ready(self, at: int) -> None:
        self.feed(ServiceRestored(at=self.now, instance=pick(self.instances("evicting"), at)))

    def leaving(self) -> list[InstanceId]:
        return [*self.instances("evicting"), *self.ledger.instances.forgetting]

    @precondition(lambda self: self.leaving())
    @rule(at=index)
    def an_instance_is_evicted(self, at: int) -> None:
        self.feed(ServiceEvicted(at=self.now, instance=pick(self.leaving(), at)))

    @precondition(lambda self: self.ledger.instances.ever)
    @rule(at=index)
    def an_instance_fails(self, at: int) -> None:
        names = [*self.ledger.instances.up, *self.ledger.instances.forgetting]
        name = pick(names or sorted(self.ledger.instances.ever), at)
        up = self.ledger.instances.up.get(name)
        calls = [self.ledger.leases[a] for a in sorted(up.calls)] if up else []
        self.feed(InstanceFailed(at=self.now, instance=name, reason="it crashed"))
        for lease in calls:
            self.exit(lease.action, Outcome.LOST)

    @precondition(lambda self: self.ledger.instances.ever)
    @rule(at=index)
    def an_echo_of_an_instance_arrives(self, at: int) -> None:
        name = pick(sorted(self.ledger.instances.ever), at)
        if name not in self.ledger.instances.up and name not in self.ledger.instances.forgetting:
            self.feed(ServiceRestored(at=self.now, instance=name))
            self.feed(ServiceEvicted(at=self.now, instance=name))

    # -- actions -------------------------------------------------------------------------------

    @precondition(lambda self: self.ledger.instances.services)
    @rule(
        at=index,
        tokens=st.sampled_from([0, 0, 1]),
        milli=st.sampled_from([0, 0, 500, 2000]),
        task=st.sampled_from(["a", "a", "b"]),
        priority=st.sampled_from([0, 0, 1]),
        count=st.sampled_from([1, 1, 3]),
    )
    def calls_are_submitted(
        self, *, at: int, tokens: int, milli: int, task: str, priority: int, count: int
    ) -> None:
        needs = {QUOTA.resource: tokens, CPU: milli}
        for _ in range(count):
            action = Action(
                id=ActionId(f"a{next(self.names)}"),
                task=TaskId(task),
                service=pick(list(self.ledger.instances.services), at),
                needs={name: amount for name, amount in needs.items() if amount},
                priority=priority,
            )
            self.feed(ActionSubmitted(at=self.now, action=action))

    @rule(gpus=st.sampled_from([1, 2, 3, 4, 8]), milli=st.sampled_from([0, 1000]))
    def a_lease_of_devices_is_submitted(self, gpus: int, milli: int) -> None:
        needs = {GPU: gpus, CPU: milli} if milli else {GPU: gpus}
        action = Action(id=ActionId(f"a{next(self.names)}"), needs=needs)
        self.feed(ActionSubmitted(at=self.now, action=action))

    @rule(
        milli=st.sampled_from([0, 500, 1000, 2000]),
        mib=st.sampled_from([0, 0, 200]),
        tokens=st.sampled_from([0, 0, 1, 2]),
    )
    def a_plain_action_is_submitted(self, milli: int, mib: int, tokens: int) -> None:
        needs = {CPU: milli, MEMORY: mib, QUOTA.resource: tokens}
        action = Action(
            id=ActionId(f"a{next(self.names)}"), needs={n: k for n, k in needs.items() if k}
        )
        self.feed(ActionSubmitted(at=self.now, action=action))

    @rule(tokens=st.sampled_from([0, 1]), mib=st.sampled_from([0, 100]))
    def an_elastic_action_is_submitted(self, tokens: int, mib: int) -> None:
        needs = {MEMORY: mib, QUOTA.resource: tokens}
        action = Action(
            id=ActionId(f"a{next(self.names)}"),
            needs={n: k for n, k in needs.items() if k},
            elastic=Elastic(units=(1, 2), speedup=Amdahl(serial=0.1)),
        )
        self.feed(ActionSubmitted(at=self.now, action=action))

    @rule(mib=st.sampled_from([100, 300]))
    def an_environment_is_requested(self, mib: int) -> None:
        name = EnvironmentId(f"e{next(self.names)}")
        environment = Environment(id=name, needs={MEMORY: mib})
        self.feed(EnvironmentRequested(at=self.now, environment=environment))

    def exit(self, action: ActionId, outcome: Outcome) -> None:
        lease = self.ledger.leases.get(action)
        attempt = lease.attempt if lease else 1
        self.feed(ActionExited(at=self.now, action=action, attempt=attempt, outcome=outcome))

    @precondition(lambda self: self.ledger.leases)
    @rule(at=index, outcome=st.sampled_from([*Outcome, Outcome.SUCCEEDED, Outcome.SUCCEEDED]))
    def an_attempt_ends(self, at: int, outcome: Outcome) -> None:
        self.exit(pick(list(self.ledger.leases), at), outcome)

    @precondition(lambda self: self.ledger.actions)
    @rule(at=index)
    def an_action_is_cancelled(self, at: int) -> None:
        action = pick(list(self.ledger.actions), at)
        self.feed(CancelRequested(at=self.now, action=action))

    @rule(pause_s=st.sampled_from([0.5, 3.0]))
    def the_quota_is_throttled(self, pause_s: float) -> None:
        self.feed(QuotaThrottled(at=self.now, quota=QUOTA.name, retry_after_s=pause_s))

    @rule(span=st.sampled_from([0.0, 0.1, 1.0, 5.0, 400.0]))
    def time_passes(self, span: float) -> None:
        self.now += span
        if self.ledger.wake_at is not None and self.ledger.wake_at <= self.now:
            self.feed(Woke(at=self.now))

    # -- what must hold ------------------------------------------------------------------------

    @invariant()
    def the_books_agree(self) -> None:
        self.kernel.check()

    @invariant()
    def phases_are_what_the_commands_told(self) -> None:
        for action in self.ledger.actions:
            assert self.ledger.phase_of(action) is self.kernel.phase_of(action)

    @invariant()
    def every_wait_has_an_explanation(self) -> None:
        for action in self.ledger.unresolved():
            waits = self.ledger.phase_of(action) is Phase.QUEUED
            assert waits == bool(self.kernel.explain(action).waits_for)

    def teardown(self) -> None:
        """All that was ever accepted ends, once there are nodes, and executors answer."""
        for gpu_model in ("h", "a"):
            big = Node(
                id=NodeId(f"big-{gpu_model}"),
                capacity={CPU: 64_000, MEMORY: 64_000},
                gpus=8,
                gpu_mib=1000,
                gpu_model=gpu_model,
            )
            self.feed(NodeJoined(at=self.now, node=big))
        for _ in range(400):
            if not self.ledger.unresolved():
                break
            self.now += 1.0
            self.progress()

        left = [self.ledger.actions[a] for a in self.ledger.unresolved()]
        assert [] == [a for a in left if not self.is_locked_out(a)]
        twin = self.fresh()
        assert [c for _, c in self.journal] == [twin.handle(e) for e, _ in self.journal]

    def is_locked_out(self, action: Action) -> bool:
        """Whether instances that stay for ever hold all the devices it could ever have."""
        if action.service is None:
            gpus = action.needs[GPU]
            return not self.could_be_somewhere(Service(name="lease", degrees=(degree_of(gpus),)))
        service = self.ledger.instances.services[action.service]
        up = [len(u.devices) for u in self.ledger.instances.up.values() if u.service is service]
        return not (up and service.pinned) and not self.could_be_somewhere(service)

    def could_be_somewhere(self, service: Service) -> bool:
        """Whether some cell of a big node, wide enough, has no instance that stays for ever."""
        kept = {
            (up.node, device)
            for up in self.ledger.instances.up.values()
            for device in up.devices
            if up.service.pinned
        }
        widths = service.pinned or [degree.gpus for degree in service.degrees]
        return any(
            all((node.id, device) not in kept for device in range(start, start + width))
            for node in self.ledger.nodes.values()
            if node.id.startswith("big") and service.gpu_model in {"", node.gpu_model}
            for width in widths
            for start in range(0, node.gpus - width + 1, width)
        )

    def progress(self) -> None:
        if self.ledger.wake_at is not None and self.ledger.wake_at <= self.now:
            self.feed(Woke(at=self.now))
        for name in self.instances("restoring"):
            self.feed(ServiceRestored(at=self.now, instance=name))
        for name in self.leaving():
            self.feed(ServiceEvicted(at=self.now, instance=name))
        for name, place in list(self.ledger.places.items()):
            if place.state == "opening":
                self.feed(EnvironmentOpened(at=self.now, environment=name, attempt=place.attempt))
        for action in list(self.ledger.leases):
            self.exit(action, Outcome.SUCCEEDED)


TestServing = ServingMachine.TestCase
TestServing.settings = settings(max_examples=60, stateful_step_count=50)
