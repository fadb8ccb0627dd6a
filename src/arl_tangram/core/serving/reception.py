"""Which service an action is a call to, and whether it can ever be answered."""

from __future__ import annotations

from ..cluster import Cluster
from ..model import GPU, Action, Bundle, Degree, Service
from ..pools.gpu import WIDTHS
from ..refusal import why_no_tokens
from .arrivals import Together
from .services import ServiceState, own_needs


class Reception:
    """Looks at actions as they come, and knows those that are calls."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def concerns(self, action: Action) -> bool:
        """Whether an action is a call, or a lease of devices that nodes number one by one."""
        if action.service is not None:
            return True
        nodes = self._cluster.nodes.values()
        return bool(action.needs.get(GPU)) and any(node.pool.gpus.owners for node in nodes)

    def route(self, action: Action) -> ServiceState | None:
        """The service that answers an action; None if none is to, or none has that name.

        A plain lease of devices is a call to a service with nothing to restore, whose instances
        answer one call each.
        """
        cluster = self._cluster
        if action.service is not None:
            return cluster.services.get(action.service)
        gpus = action.needs.get(GPU, 0)
        width = next((w for w in WIDTHS if w >= gpus), None)
        if width is None or not self.concerns(action):
            return None
        name = f"{GPU}:{width}"
        if (state := cluster.services.get(name)) is None:
            degree = Degree(gpus=width, speedup=1.0, restore_s=0.0)
            arrivals = Together().arrivals(cluster.now)
            state = ServiceState.of(
                Service(name=name, degrees=(degree,)), arrivals=arrivals, bare=True
            )
            cluster.services[name] = state
        return state

    def why_not(self, action: Action, state: ServiceState | None, needs: Bundle) -> str:
        """Why a call can never be answered; empty if it can be."""
        if state is None and action.service is None:
            return f"it needs {needs[GPU]} GPUs in one cell, and a cell has at most {WIDTHS[-1]}"
        if state is None:
            services = self._cluster.services.values()
            known = ", ".join(sorted(s.name for s in services if not s.bare)) or "none"
            return f"no service {action.service} is declared (there are: {known})"
        if action.environment is not None:
            what = "a lease of GPUs" if state.bare else "a call to a service"
            return f"{what} does not run in an environment; leave out environment"
        if action.elastic is not None and not state.bare:
            return "a call has no elastic units of its own; leave out elastic"
        nodes = self._cluster.nodes.values()
        able = [
            n for n in nodes if any(state.could_run_on(n.pool, d) for d in state.service.degrees)
        ]
        if nodes and not able:
            return _nowhere(state)
        rest = own_needs(needs)
        if nodes and not any(node.pool.could_ever_fit(rest) for node in able):
            what = "the GPUs" if state.bare else f"service {state.name}"
            amounts = " ".join(f"{name}={amount}" for name, amount in rest.items())
            return f"it needs {amounts} beside {what}, and no node has both"
        return why_no_tokens(self._cluster, needs)


def _nowhere(state: ServiceState) -> str:
    service = state.service
    if state.bare:
        return f"it needs {service.degrees[0].gpus} GPUs in one aligned cell, and no node has them"
    widths = " or ".join(str(degree.gpus) for degree in service.degrees)
    model = f" of model {service.gpu_model}" if service.gpu_model else ""
    mib = ", ".join(f"{d.device_mib} MiB on each of {d.gpus}" for d in service.degrees)
    return (
        f"service {service.name} needs {widths} GPUs{model} in one aligned cell of a node "
        f"({mib}, and {service.host_mib} MiB of the host), and no node has them"
    )
