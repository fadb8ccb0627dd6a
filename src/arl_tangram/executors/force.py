"""What the running commands of an environment hold, put into force on its group."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from dataclasses import replace

from ..core.model import MILLI
from .grants import grant_variables
from .group import Group
from .port import CpuGrant
from .warden import encode_environment

ENDING_MILLI = 4000
"""What an environment may use while something in it is being ended: to die takes time too."""
FREEZE_AFTER_S = 0.2
"""How long what is left in the background may take to finish before it is frozen."""
BACKGROUND_MILLI = 10
"""What it may use until then."""


class Force:
    """Args:
    group: the group of the environment.
    limits: what the kernel enforces on it.
    cpu_scale: real cores in one unit.
    pin: whether the cores of grants are put into force.
    """

    def __init__(
        self, group: Group, *, limits: frozenset[str], cpu_scale: float, pin: bool
    ) -> None:
        self._group = group
        self._limits = limits
        self._scale = cpu_scale
        self._pin = pin
        self._machine_milli = round(MILLI * (os.cpu_count() or 1) / cpu_scale)
        self._encoded: dict[tuple[int, int], dict[bytes, bytes]] = {}
        self._frozen = False
        self._freeze_timer: asyncio.TimerHandle | None = None

    @property
    def frozen(self) -> bool:
        """Whether what is left in the background is held still."""
        return self._frozen

    def apply(self, grants: Collection[CpuGrant], *, cores: bool = True) -> None:
        """Let the environment have the sum of these; `cores` says whether to move it to theirs."""
        self._group.set_cpu(round(sum(grant.milli for grant in grants) * self._scale))
        if self._pin and cores:
            unpinned = any(not grant.cores for grant in grants)
            union = {core for grant in grants for core in grant.cores}
            self._group.set_cores(() if unpinned else union)

    def cores_for_warden(self, grant: CpuGrant, *, alone: bool) -> tuple[int, ...]:
        """The cores a command's warden has to put it on; none if the group sees to it.

        Alone in its group, the group's cores are its own, and follow a resize at no cost.
        """
        by_group = alone and "cores" in self._limits
        return tuple(grant.cores) if self._pin and not by_group else ()

    def wake(self) -> None:
        """Let the environment run."""
        if self._freeze_timer:
            self._freeze_timer.cancel()
            self._freeze_timer = None
        if self._frozen:
            self._group.thaw()
            self._frozen = False

    def rest(self) -> None:
        """Let what is left in the background finish, slowly, and then hold it still."""
        self._group.set_cpu(BACKGROUND_MILLI)
        loop = asyncio.get_running_loop()
        self._freeze_timer = loop.call_later(FREEZE_AFTER_S, self._freeze)

    def hurry(self) -> None:
        """Give time to what is being ended."""
        self.wake()
        self._group.set_cpu(ENDING_MILLI)

    def variables(self, grant: CpuGrant) -> Mapping[str, str]:
        """The variables of a grant; no more is promised than this machine could ever give."""
        most = max(grant.milli, min(grant.most_milli, self._machine_milli))
        return grant_variables(replace(grant, most_milli=most))

    def encoded_variables(self, grant: CpuGrant) -> Mapping[bytes, bytes]:
        """The same as the kernel takes them."""
        key = (grant.milli, grant.most_milli)
        if (encoded := self._encoded.get(key)) is None:
            encoded = self._encoded[key] = encode_environment(self.variables(grant))
        return encoded

    def _freeze(self) -> None:
        self._freeze_timer = None
        self._group.freeze()
        self._frozen = True
