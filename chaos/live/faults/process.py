"""Faults of processes and of leadership: killed, paused, stopped in order, emptied, restarted in turn, replaced."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import aiohttp

from chaos.cluster import replacing
from chaos.cluster.cluster import READY_S, ClusterFailed
from chaos.live.faults.handler import Handler, PassedOver
from chaos.live.faults.nemesis import LiveNemesis
from chaos.plan.fault_plan import Fault
from cli.local.local_nodes import how_it_ended
from node.runtime.exit_code import ExitCode

#: A removed node hears of it within this time, or is cut off and never does.
HEARS_S: Final = 10.0
POLL_S: Final = 0.1
#: A rolling restart stops at a node that is not ready by then: other faults prevent it.
ROLLS_ON_S: Final = 20.0


class ProcessFaults:
    """Puts faults of processes and of leadership on, for one nemesis."""

    def __init__(self, nemesis: LiveNemesis) -> None:
        self._nemesis, self._cluster, self._hands = nemesis, nemesis.cluster, nemesis.holds
        self._asked = -1

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler for each kind of fault."""
        return {
            "kill": self._kill,
            "pause": self._pause,
            "stop": self._stop,
            "wipe": self._wipe,
            "rolling": self._rolling,
            "replace": self._replace,
            "transfer": self._transfer,
        }

    def _running(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of these nodes that run. Raises PassedOver if none of them does."""
        alive = tuple(name for name in nodes if name in self._cluster.running())
        if not alive:
            raise PassedOver(f"{', '.join(nodes)} does not run")
        return alive

    @asynccontextmanager
    async def _kill(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        alive = self._running(nodes)
        async with AsyncExitStack() as held:
            for node_id in nodes:
                await held.enter_async_context(self._hands.may_end(node_id))
            for node_id in alive:
                self._cluster.signal_kill(node_id)
            self._nemesis.begun(fault, alive)
            await asyncio.gather(*map(self._cluster.ended, alive))
            yield

    @asynccontextmanager
    async def _pause(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        alive = self._running(nodes)
        async with AsyncExitStack() as held:
            for node_id in alive:
                await held.enter_async_context(self._hands.paused(node_id))
            self._nemesis.begun(fault, alive)
            yield

    @asynccontextmanager
    async def _stop(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        alive = tuple(name for name in self._running(nodes) if not self._hands.stands_still(name))
        if not alive:
            raise PassedOver(f"{', '.join(nodes)} stands still and hears no SIGTERM")
        async with AsyncExitStack() as held:
            for node_id in alive:
                await held.enter_async_context(self._hands.may_end(node_id))
            self._nemesis.begun(fault, alive)
            await self._end_in_order(alive)
            yield

    async def _end_in_order(self, nodes: tuple[str, ...]) -> None:
        """Stop the nodes with SIGTERM. Another fault may kill or pause a node meanwhile, or fail its disk. Then the
        node ends in another way than in order, and `fell_short` says how."""
        ends = [asyncio.ensure_future(self._cluster.end_of(node_id)) for node_id in nodes]
        for node_id in nodes:
            self._cluster.signal_stop(node_id)
        try:
            async with asyncio.timeout(READY_S):
                returncodes = await asyncio.gather(*ends)
        except TimeoutError:
            raise ClusterFailed(f"{', '.join(nodes)}: asked to stop and still there after {READY_S} s") from None
        for node_id, returncode in zip(nodes, returncodes, strict=True):
            if returncode != ExitCode.OK:
                self._nemesis.fell_short.append(f"{node_id} was asked to stop: {how_it_ended(returncode)}")

    @asynccontextmanager
    async def _wipe(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        if len(nodes) != 1:
            raise PassedOver("the disk of one node at most may be in doubt")
        async with self._nemesis.doubt(nodes[0]), self._hands.down(nodes[0]):
            async with self._hands.files(nodes[0]):
                if nodes[0] in self._nemesis.rotten:
                    raise PassedOver(f"whether {nodes[0]} finds what is damaged on its disk is not known yet")
                self._nemesis.begun(fault, nodes)
                self._cluster.wipe(nodes[0])
            yield

    @asynccontextmanager
    async def _rolling(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        self._nemesis.begun(fault, self._running(nodes))
        for node_id in nodes:
            if node_id in self._cluster.running() and not self._hands.stands_still(node_id):
                async with self._hands.may_end(node_id):
                    await self._end_in_order((node_id,))
                    await self._nemesis.until_over(fault)
            if not await self._soon_ready(node_id):
                break  # as an operator would
        yield

    async def _soon_ready(self, node_id: str) -> bool:
        """Wait for the node. True if it is ready within ROLLS_ON_S or was removed meanwhile. False after that time, or
        as soon as all is healed."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + ROLLS_ON_S
        while node_id in self._cluster.nodes and not await self._cluster.is_ready(node_id):
            if loop.time() > until_s or not await self._nemesis.lasts(POLL_S):
                return False
        return True

    @asynccontextmanager
    async def _replace(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        if not self._cluster.spare or len(nodes) != 1:
            raise PassedOver("one node is replaced by one that is spare")
        new, old = next(iter(self._cluster.spare)), nodes[0]
        replacing.take(self._cluster, new)
        self._nemesis.begun(fault, nodes)
        self._hands.start(new)
        await self._sooner_or_later(replacing.admit, new)
        await self._nemesis.until_over(fault)
        self._cluster.leaving.add(old)
        await self._sooner_or_later(replacing.dismiss, old)
        async with self._hands.may_end(old):
            try:
                async with asyncio.timeout(HEARS_S):
                    returncode = await self._cluster.end_of(old)
                if returncode != ExitCode.REMOVED:
                    self._nemesis.fell_short.append(f"replace: {old} was removed, and {how_it_ended(returncode)}")
            except TimeoutError:
                self._nemesis.fell_short.append(f"replace: {old} did not hear that it was removed, and was killed")
                await self._cluster.kill(old)
            self._cluster.forget(old)
        yield

    async def _sooner_or_later(self, change: replacing.Change, node_id: str) -> None:
        """Make this change of the members, and repeat it while other faults keep the cluster from agreeing on it.
        Raises the ClusterFailed of a try that nothing excuses: all is healed by then, or the plan's faults come one
        after the other."""
        while True:
            has_to = not await self._nemesis.lasts(0) or bool(self._nemesis.plan.in_turn)
            try:
                return await change(self._cluster, node_id)
            except ClusterFailed:
                if has_to:
                    raise
            await self._nemesis.lasts(POLL_S)

    @asynccontextmanager
    async def _transfer(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        leader, best = self._nemesis.watch.leader(), fault.target == "*"
        if leader is None or not (best or (len(nodes) == 1 and nodes[0] != leader)):
            raise PassedOver("leadership goes from a leader to another node")
        asked = [node_id for node_id in self._running(tuple(self._cluster.nodes)) if not self._hands.away(node_id)]
        if not asked:
            raise PassedOver("no node can be asked")
        to = "" if best else nodes[0]
        self._asked += 1  # ask each node in turn: any node finds its leader
        self._nemesis.begun(fault, (leader,) if best else nodes)
        try:
            await self._nemesis.watch.transfer(asked[self._asked % len(asked)], to)
        except (aiohttp.ClientError, TimeoutError, ClusterFailed) as why:  # the watch sees the leader anyway
            self._nemesis.fell_short.append(f"transfer: {why or 'no answer'}")
        yield
