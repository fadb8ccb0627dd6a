"""What the kernel knows about one service: who waits for it, where it is, how often it is called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..curve import Curve
from ..entries import Entry
from ..estimates import PRIOR_WORK_S, Estimates
from ..lines import Lines
from ..model import API, GPU, Action, Bundle, Degree, InstanceId, NodeId, Seconds, Service
from ..pools.node import NodePool
from ..pools.quota import NEVER
from ..shares import Shares
from .arrivals import Arrivals
from .instances import Instance, InstancePhase

#: Restore time of a degree that has never been seen and was not declared.
PRIOR_RESTORE_S = 10.0
#: What a restore from a host's copy is believed to take of the time of a load from nothing, which
#: starts a process and reads the weights from a disk.
WARM_SHARE = 0.1
#: What nobody waits for is given up when it has taken so many times what was expected.
OVERDUE = 3.0
#: The shortest pause between two looks for another instance.
LOOK_S = 0.05
#: Weight of the newest observation in what is learned about restores and calls.
NEWEST = 0.2


@dataclass(slots=True)
class Mix:
    """How many of the waiting calls are of one task and kind, with one of them to ask about."""

    count: int
    example: Action


@dataclass(slots=True, eq=False)
class ServiceState:
    """One service, mutated by the kernel alone.

    Attributes:
        curve: how much faster each degree is, for the account of work done.
        lines: the calls that wait, `calls` of them.
        needy: how many of those need more of a node than its devices.
        keeps: what is kept on a node for a call that has waited for it too long.
        shares: what each task has of its instances.
        instances: those not gone.
        call_work_s: the expected work of its calls, on average of late.
        bare: whether it stands for plain leases of devices: nothing to restore, one call each.
        failures: how often its instances failed since a call of it last succeeded, those that
            were up together counted once;
        failed_at: when that was last.
        rest_until: no instance is restored before this time.
        quarantined: why it is not served at all for now; empty if it is.
        wake_at: when it has to be looked at again, whatever happens.
        looked_at: when another instance was last thought of for those who wait,
        looked_for: and how many they were;
        pause_s: how long not to do so again if nothing changes.
    """

    service: Service
    curve: Curve
    arrivals: Arrivals
    bare: bool = False
    lines: Lines = field(default_factory=Lines)
    calls: int = 0
    needy: int = 0
    shares: Shares = field(default_factory=Shares)
    instances: dict[InstanceId, Instance] = field(default_factory=dict)
    degrees: dict[int, Degree] = field(default_factory=dict)
    mixes: dict[tuple[str, str], Mix] = field(default_factory=dict)
    restores: dict[tuple[int, bool], Seconds] = field(default_factory=dict)
    call_work_s: Seconds = PRIOR_WORK_S
    keeps: tuple[NodeId, Bundle] | None = None
    failures: int = 0
    failed_at: Seconds = float("-inf")
    rest_until: Seconds = float("-inf")
    quarantined: str = ""
    last_failure: str = ""
    wake_at: Seconds = float("inf")
    looked_at: Seconds = float("-inf")
    looked_for: int = 0
    pause_s: Seconds = LOOK_S

    @classmethod
    def of(cls, service: Service, *, arrivals: Arrivals, bare: bool = False) -> ServiceState:
        """The state of a service that was just declared."""
        return cls(
            service=service,
            curve=_curve_of(service),
            arrivals=arrivals,
            bare=bare,
            degrees={degree.gpus: degree for degree in service.degrees},
        )

    @property
    def name(self) -> str:
        return self.service.name

    @property
    def pinned(self) -> bool:
        """Whether its instances stay where they are for ever."""
        return bool(self.service.pinned)

    def add(self, entry: Entry, *, first: bool = False) -> None:
        """Let a call wait."""
        self.lines.add(entry, first=first)
        self.calls += 1
        self.needy += bool(own_needs(entry.least))
        key = (entry.task, entry.action.kind)
        if (mix := self.mixes.get(key)) is None:
            self.mixes[key] = Mix(1, entry.action)
        else:
            mix.count += 1

    def remove(self, entry: Entry) -> None:
        """It does not wait any more."""
        self.lines.remove(entry)
        self.calls -= 1
        self.needy -= bool(own_needs(entry.least))
        key = (entry.task, entry.action.kind)
        mix = self.mixes[key]
        mix.count -= 1
        if not mix.count:
            del self.mixes[key]
            if not self.mixes:
                self.looked_for, self.pause_s = 0, LOOK_S

    def waiting(self, estimates: Estimates) -> tuple[int, Seconds]:
        """How many calls wait, at least one, and the expected work of each, on average."""
        work = sum(mix.count * estimates.work(mix.example) for mix in self.mixes.values())
        return self.calls, work / self.calls

    def called(self, work: Seconds, now: Seconds) -> None:
        """A call with this expected work came."""
        self.arrivals.add(now)
        self.call_work_s += NEWEST * (work - self.call_work_s)

    def speeds(self, instances: Iterable[Instance]) -> list[float]:
        """The speed of every slot of these instances, the fastest first."""
        slots = self.service.slots
        speeds = [i.degree.speedup for i in instances for _ in range(slots)]
        speeds.sort(reverse=True)
        return speeds

    def staying(self) -> list[Instance]:
        """Instances that serve its calls, or are to, and need not make room."""
        return [instance for instance in self.instances.values() if instance.staying]

    def restore_s(self, degree: Degree, *, cold: bool, crowd: int = 0) -> Seconds:
        """How long an instance is expected to take to be ready.

        Args:
            degree: its width.
            cold: whether it must be loaded from scratch.
            crowd: how many devices of its node are being restored already.
        """
        if self.bare:
            return 0.0
        alone = self.service.load_s if cold else degree.restore_s
        if alone is None:
            alone = self.restores.get((degree.gpus, cold))
        if alone is None:
            alone = self._guess(degree, cold=cold)
        return alone * max(1.0, (crowd + degree.gpus) / UNCROWDED)

    def gives_up(self, instance: Instance, now: Seconds) -> bool:
        """Whether an instance on its way may be ended for others: nobody waits for it any more.

        A load that was never seen to come to an end may never do so; what is known is ended only when
        it is long overdue.
        """
        return now >= self.given_up_at(instance)

    def given_up_at(self, instance: Instance) -> Seconds:
        """From when on that is so, if nobody comes to wait for it; infinity for those that stay."""
        if instance.phase is not InstancePhase.RESTORING or self.calls or self.pinned:
            return NEVER
        if self.service.load_s is None and not self.restores:
            return instance.began_at
        return instance.began_at + OVERDUE * (instance.ready_at - instance.began_at)

    def restored(self, instance: Instance, now: Seconds) -> None:
        """Learn from how long it took."""
        key = (instance.degree.gpus, instance.cold)
        took = now - instance.began_at
        took /= max(1.0, (instance.crowd + instance.degree.gpus) / UNCROWDED)
        known = self.restores.get(key)
        self.restores[key] = took if known is None else known + NEWEST * (took - known)

    def _guess(self, degree: Degree, *, cold: bool) -> Seconds:
        """From what is known of other degrees, or of restores from the other state."""
        loads = {gpus: s for (gpus, was_cold), s in self.restores.items() if was_cold}
        warm = {gpus: s for (gpus, was_cold), s in self.restores.items() if not was_cold}
        warm |= {d.gpus: d.restore_s for d in self.service.degrees if d.restore_s is not None}
        if cold:
            known = loads or warm
        else:
            known = warm or {gpus: s * WARM_SHARE for gpus, s in loads.items()}
        if not known:
            return PRIOR_RESTORE_S
        gpus = min(known, key=lambda width: abs(width - degree.gpus))
        if degree.gpus in warm and gpus in warm:
            return known[gpus] * warm[degree.gpus] / warm[gpus]
        return known[gpus] * gpus / degree.gpus  # each device takes its share of the weights

    def could_run_on(self, pool: NodePool, degree: Degree) -> bool:
        """Whether an instance of this width could ever be on a node."""
        service = self.service
        return (
            bool(pool.gpus.cells(degree.gpus))
            and degree.device_mib <= pool.gpu_mib
            and service.gpu_model in {"", pool.gpu_model}
            and pool.could_ever_fit({"memory": service.host_mib})
        )

    def resting(self, now: Seconds) -> bool:
        """Whether no instance of it may be restored now."""
        return now < self.rest_until


#: So many devices of a node can be restored at once at full speed: its host's memory bandwidth.
UNCROWDED = 4.0


def _curve_of(service: Service) -> Curve:
    units = tuple(degree.gpus for degree in service.degrees)
    speeds = {degree.gpus: degree.speedup for degree in service.degrees}
    return Curve(
        units=units,
        slowness=tuple(1.0 / speeds[gpus] for gpus in units),
        savings=(0.0,) * len(units),
        startup_s=0.0,
        index={gpus: i for i, gpus in enumerate(units)},
        speeds=speeds,
    )


def own_needs(needs: Bundle) -> Bundle:
    """What of an action's needs its node's books hold: all but quotas and devices."""
    return {n: amount for n, amount in needs.items() if n != GPU and not n.startswith(API)}
