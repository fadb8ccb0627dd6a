"""Where requests become submitted actions."""

from __future__ import annotations

from ..core.model import (
    NOTHING,
    ActionId,
    Bundle,
    EnvironmentId,
    Explanation,
    TaskId,
    TrajectoryId,
)
from ..errors import InvalidAction
from . import checks
from .driver import Driver
from .handle import Handle
from .requests import Command, CommandOptions, Names, action_for, chosen_id, invocation_for
from .work import CommandWork, Room


class Intake:
    """Checks requests, names them, and hands them to the driver.

    Args:
        most_milli: the most millicores that any node could ever grant.
    """

    def __init__(self, driver: Driver, names: Names, *, most_milli: int) -> None:
        self.driver = driver
        self.names = names
        self.most_milli = most_milli

    def submit(
        self,
        command: Command,
        options: CommandOptions,
        *,
        room: Room,
        task: TaskId,
        trajectory: TrajectoryId,
        environment: EnvironmentId | None = None,
        kind: str = "default",
        needs: Bundle = NOTHING,
        owns_cores: bool = False,
    ) -> Handle:
        """Submit a command; an id that is alive gives the handle of the action that has it.

        Raises `InvalidAction` for what is wrong, before anything is queued.
        """
        invocation = invocation_for(command, options)
        named = options.get("id")
        if (
            named is not None
            and (alive := self.driver.work(ActionId(chosen_id(named)))) is not None
        ):
            if not isinstance(alive, CommandWork) or alive.invocation != invocation:
                raise InvalidAction(f"id={named!r}: another action has this id")
            return Handle(alive, self.driver)
        action = action_for(
            self.names,
            options,
            task=task,
            trajectory=trajectory,
            environment=environment,
            kind=kind,
            needs=needs,
            owns_cores=owns_cores,
            most_milli=self.most_milli,
        )
        work = CommandWork(
            action, invocation, room=room, driver=self.driver, most_milli=self.most_milli
        )
        work.submit()
        return Handle(work, self.driver)

    def explain(self, identity: object) -> Explanation:
        """What the action with this id waits for; raises `UnknownAction`."""
        return self.driver.explain(ActionId(checks.word(identity, "id")))
