"""Wall clocks that are wrong: they jump, or run too fast or too slow, on one node at a time.

All clocks together cannot be moved here. The clients' clock is the machine's own, and it judges what is early.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from chaos.live.faults.handler import Handler, NotRun, PassedOver
from chaos.live.faults.nemesis import LiveNemesis
from chaos.plan.fault_plan import Fault

CLOCK_KINDS: Final = frozenset({"jump", "drift"})
"""Kinds of faults that need nodes whose clocks can be moved."""


class ClockFaults:
    """Puts clock faults on for one nemesis. Its cluster has to be made with `skewed`. Otherwise each clock fault raises
    NotRun, and `lacking` is the reason that it gives."""

    def __init__(self, nemesis: LiveNemesis, lacking: str = "") -> None:
        self._nemesis = nemesis
        self._clocks, self._lacking = nemesis.cluster.clocks, lacking or "the cluster was made with true clocks"
        self._wrong: str | None = None

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler for each kind of fault."""
        return dict.fromkeys(CLOCK_KINDS, self._set)

    @asynccontextmanager
    async def _set(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        if self._clocks is None:
            raise NotRun(self._lacking)
        if len(nodes) != 1 or self._wrong is not None:
            raise PassedOver("the clock of one node at most may be wrong")
        (self._wrong,) = nodes
        offset_ms = fault.number("by") * 1_000 if fault.kind == "jump" else 0.0
        self._clocks.set(self._wrong, offset_ms, fault.number("ppm") if fault.kind == "drift" else 0.0)
        try:
            yield
        finally:
            self._clocks.set(self._wrong, 0.0)
            self._wrong = None
