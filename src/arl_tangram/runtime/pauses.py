"""What an API asks everybody to wait, whoever was told so: a pause of its quota."""

from __future__ import annotations

import logging

from ..core.events import QuotaThrottled
from ..core.model import Seconds
from .driver import Driver

log = logging.getLogger(__name__)

#: A pause of so long is told, since nothing else may show why all is quiet.
LONG_PAUSE_S = 600.0
#: One reply asks for no more than this: a mistaken date would stop a quota for good.
MOST_PAUSE_S = 86_400.0


class Pauses:
    """Pauses quotas for everybody who uses them."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._told: dict[str, Seconds] = {}  # until when its users know that a quota is paused

    def pause(self, quota: str, wait_s: Seconds) -> None:
        """Let nobody use it for so long, from now on."""
        now = self._driver.now()
        held_s = min(wait_s, MOST_PAUSE_S)
        self._driver.feed(QuotaThrottled(at=now, quota=quota, retry_after_s=held_s))
        if now + held_s - LONG_PAUSE_S >= self._told.get(quota, now):
            self._told[quota] = now + held_s
            log.warning(
                "quota %s: the API asks everybody to wait for %s s%s",
                quota,
                f"{wait_s:,.0f}",
                f"; it is tried again after {held_s:,.0f} s" if held_s < wait_s else "",
                extra={"action": "pause_quota"},
            )
