"""What carries a kind of fault out on real processes: the shape that the nemesis's table holds.

A handler is an asynchronous context manager: entering it puts the fault on, leaving it takes the fault away. What
happens in between is not its business, so a fault may be ended early (all is healed at the end of a run) in the same
way in which it ends by itself.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from chaos.plan.fault_plan import Fault

Handler = Callable[[Fault, tuple[str, ...]], AbstractAsyncContextManager[None]]
"""Of a fault and the ids of the nodes it hits (none for kinds that hit links or groups)."""


class PassedOver(Exception):
    """The fault would break an assumption that the promises rest on, or there is nothing to hit; says which."""


class NotRun(Exception):
    """This machine cannot do it; says why."""


class Handlers(Protocol):
    """Handlers of several kinds that share something."""

    def handlers(self) -> Mapping[str, Handler]:
        """By kind; one that this machine cannot do raises NotRun."""
        ...
