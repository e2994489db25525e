"""Faults of the network between nodes: partitions of every shape, and links that lose, delay, repeat or throttle."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from chaos.cluster.links import Condition, Link, Links
from chaos.live.faults.handler import Handler, NotRun, PassedOver
from chaos.live.faults.nemesis import LiveNemesis
from chaos.plan.fault_plan import KINDS, Fault

CUT = Condition(cut=True)


class LinkFaults:
    """Puts faults on the links between nodes, for one nemesis. On a network whose links cannot be changed, each of
    these faults raises NotRun."""

    def __init__(self, nemesis: LiveNemesis) -> None:
        self._nemesis, self._cluster_network = nemesis, nemesis.cluster.cluster_network

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler for each kind of fault."""
        return {
            "partition": self._holding(lambda fault: CUT),
            "cut": self._holding(lambda fault: CUT),
            "flap": self._flap,
            "loss": self._holding(lambda fault: Condition(loss=fault.number("share"))),
            "duplicate": self._holding(lambda fault: Condition(duplicate=fault.number("share"))),
            "delay": self._holding(_delayed),
            "bandwidth": self._holding(lambda fault: Condition(bits_per_s=fault.number("kbit") * 1_000)),
        }

    def _holding(self, condition: Callable[[Fault], Condition]) -> Handler:
        @asynccontextmanager
        async def hold(fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
            with _put(*self._aimed(fault), condition(fault)):
                yield

        return hold

    @asynccontextmanager
    async def _flap(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        links, hit = self._aimed(fault)
        flapping = asyncio.create_task(_flapping(links, hit, fault.number("every")))
        try:
            yield
        finally:
            flapping.cancel()
            await asyncio.gather(flapping, return_exceptions=True)

    def _aimed(self, fault: Fault) -> tuple[Links, list[Link]]:
        """Return the links of the cluster's network, and those of them that the fault hits."""
        links = self._cluster_network.links
        if links is None or fault.kind in self._cluster_network.not_run:
            raise NotRun(
                self._cluster_network.not_run.get(
                    fault.kind, f"nothing lies between nodes on {self._cluster_network.name}"
                )
            )
        fault_target = self._nemesis.fault_target
        hit = (
            fault_target.links(fault.target) if KINDS[fault.kind].shape == "link" else fault_target.apart(fault.target)
        )
        if not hit:
            raise PassedOver(f"{fault.target} is no link of this cluster")
        return links, hit


async def _flapping(links: Links, hit: Iterable[Link], every_s: float) -> None:
    """Cut the links for `every_s`, heal them for `every_s`, and so on until cancelled. When it is cancelled, it leaves
    no cut of its own on them."""
    while True:
        with _put(links, hit, CUT):
            await asyncio.sleep(every_s)
        await asyncio.sleep(every_s)


@contextmanager
def _put(links: Links, hit: Iterable[Link], condition: Condition) -> Iterator[None]:
    held = links.put(hit, condition)
    try:
        yield
    finally:
        links.lift(held)


def _delayed(fault: Fault) -> Condition:
    low_s, high_s = sorted((fault.number("low"), fault.number("high")))
    return Condition(low_s=low_s, high_s=high_s)
