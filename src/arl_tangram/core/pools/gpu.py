"""Which devices of a node are whose: aligned cells of 1, 2, 4 or 8, as a buddy system."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...errors import InvariantError
from ..model import InstanceId

WIDTHS = (1, 2, 4, 8)
Cell = tuple[int, ...]


class GpuPool:
    """The devices of one node.

    A cell of w devices starts at a multiple of w, so two cells are either one inside the other or
    apart: an owner for each device is all there is to remember, and neighbours that come free are
    one larger cell again by themselves.
    """

    def __init__(self, count: int) -> None:
        self.owners: list[InstanceId | None] = [None] * count
        """Whose instance is on each device."""
        self.claims: list[InstanceId | None] = [None] * count
        """Whose instance comes next on each device, if that is settled."""
        self._cells = {
            width: tuple(
                tuple(range(start, start + width)) for start in range(0, count - width + 1, width)
            )
            for width in WIDTHS
        }

    def cells(self, width: int) -> tuple[Cell, ...]:
        """The aligned cells of this width, taken or not."""
        return self._cells[width]

    def is_free(self, cell: Cell) -> bool:
        """Whether nobody is on these devices, and nobody is to come."""
        return all(self.owners[i] is None and self.claims[i] is None for i in cell)

    def neighbours_free(self, cell: Cell) -> int:
        """The width of the widest free cell that this free cell is a part of."""
        return self.widest_around(cell, self.is_free)

    def widest_around(self, cell: Cell, could_have: Callable[[Cell], bool]) -> int:
        """The width of the widest cell around this one that could be had as well."""
        widest = len(cell)
        for width in WIDTHS:
            start = cell[0] - cell[0] % width
            around = tuple(range(start, start + width))
            if width > widest and around[-1] < len(self.owners) and could_have(around):
                widest = width
        return widest

    def claim(self, cell: Cell, by: InstanceId) -> None:
        """Let an instance be the next one on these devices."""
        self._set(self.claims, cell, old=None, new=by)

    def unclaim(self, cell: Cell, by: InstanceId) -> None:
        """It does not come after all."""
        self._set(self.claims, cell, old=by, new=None)

    def occupy(self, cell: Cell, by: InstanceId) -> None:
        """The instance that claimed these devices goes there."""
        self._set(self.claims, cell, old=by, new=None)
        self._set(self.owners, cell, old=None, new=by)

    def vacate(self, cell: Cell, by: InstanceId) -> None:
        """The instance is off these devices."""
        self._set(self.owners, cell, old=by, new=None)

    @staticmethod
    def _set(
        row: list[InstanceId | None],
        cell: Iterable[int],
        *,
        old: InstanceId | None,
        new: InstanceId | None,
    ) -> None:
        for device in cell:
            if row[device] != old:
                raise InvariantError(f"device {device} is {row[device]}'s, not {old}'s")
            row[device] = new
