"""The shape of a handler: it carries out one kind of fault on real processes. The nemesis has a table of handlers.

A handler is an asynchronous context manager: entering it puts the fault on, leaving it takes the fault off, at any
time. So a fault that ends early, because all is healed at the end of a run, is taken off as if its time were over.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from chaos.plan.fault_plan import Fault

Handler = Callable[[Fault, tuple[str, ...]], AbstractAsyncContextManager[None]]
"""From a fault and the ids of the nodes that it hits (none for kinds that hit links or groups)."""


class PassedOver(Exception):
    """The fault would break an assumption of the promises, or there is nothing to hit. The text says which."""


class NotRun(Exception):
    """This machine cannot carry the fault out. The text says why."""


class Handlers(Protocol):
    """Handlers of several kinds of faults, which share state, such as the disks of a cluster."""

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler for each kind of fault. A kind that this machine cannot carry out has a handler that
        raises NotRun."""
        ...
