"""Disk faults on real processes: slow, full, failing, without power, damaged.

At most one node's disk is in doubt at a time, because the promises assume it ("while a majority of disks survives"). A
fault that would put a second one in doubt is passed over. A damaged disk is in doubt until its node gets an empty one.

The report names the finder of each damage. A node finds damage when it starts or reads, `hourwheel verify` finds it at
once. The other nodes find what an old copy has forgotten. Damage that is not found breaks a promise, unless no node
needs the bytes. That is so for what the next start cuts off and writes anew, and for a page of LMDB to which nothing
refers.
"""

from __future__ import annotations

import asyncio
import errno
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from chaos.cluster.cluster import POLL_S, READY_S, ClusterFailed
from chaos.cluster.faulty_disk import FaultyDisk, Operation
from chaos.history.event import Event, Led
from chaos.live.faults import damage as rot
from chaos.live.faults import old_copy
from chaos.live.faults.handler import Handler, NotRun, PassedOver
from chaos.live.faults.loop_disk import LoopDisk, Unsynced
from chaos.live.faults.nemesis import LiveNemesis
from chaos.live.faults.verify import unwritten_in, unwritten_rows, verify_command
from chaos.plan.fault_plan import Fault
from node.runtime.exit_code import ExitCode
from storage.file.hour_file import directory_of

#: The free bytes of a disk that is full. That is less than a node's reserve (1 GiB), so the node takes no messages. It
#: is enough for the work that goes on: settles, leases, checkpoints.
FULL_BYTES: Final = 256 << 20
#: A node whose disk failed ends within this.
FAIL_STOP_S: Final = 1.0
#: A node that runs this long on damaged files is taken not to read them.
MEETS_S: Final = 3.0
LOOK_S: Final = 0.5
#: The extra time for the end on a busy machine: the node has to see the failure, the machine has to run the node.
BUSY_S: Final = 2.0
ROT: Final[Mapping[str, Callable[[Path, str, float, random.Random], rot.FileDamage | None]]] = {
    "flip": rot.flip,
    "zero": rot.zero,
    "truncate": rot.truncate,
    "torn": rot.tear,
}
DISK_KINDS: Final = frozenset({"slow", "full", "fail", "power", "oldcopy", *ROT})
"""Kinds of faults that need nodes whose disks can be slowed and damaged."""
ALL: Final = "all"
DELIVERIES: Final = "deliveries"
OLD: Final = "an old copy"
#: The log line of a node that learned from others that it has forgotten something (docs/operating.md).
OLD_COPY: Final = b"this data directory is an old copy"


@dataclass
class Damage:
    """One damage to the files of a node, and the parts (`verify`, its node, other nodes) that found it. `log_bytes` is
    the length that the node's log (stderr) had when the damage was done."""

    node: str
    file_damage: rot.FileDamage
    kind: str
    found_by: list[str] = field(default_factory=list)
    harmless: str = ""
    """The reason why it did not have to be found."""
    log_bytes: int = 0
    relied_on: bool = True
    """True if its node had a vote, so that its acknowledgements counted."""

    def describe(self) -> str:
        """A line for the report."""
        found = f"found by {', '.join(self.found_by)}" if self.found_by else self.harmless or "found by nobody"
        return f"{self.node}: {self.file_damage.describe()}: {found}"


class DiskFaults:
    """Puts disk faults on for one nemesis. `loops` are the nodes' own disks by node id. It is empty if the machine
    cannot have such disks."""

    def __init__(
        self,
        nemesis: LiveNemesis,
        loops: Mapping[str, LoopDisk],
        no_loops: str = "",
    ) -> None:
        """`no_loops` names what the machine lacks to give each node a disk of its own. "" if `loops` has them."""
        assert nemesis.cluster.disks is not None, "the cluster's disks cannot be hurt"
        self._nemesis, self._cluster, self._hands = nemesis, nemesis.cluster, nemesis.holds
        self._disks: FaultyDisk = nemesis.cluster.disks
        self._loops, self._no_loops = loops, no_loops
        self._chance = random.Random(f"disk faults {nemesis.plan.seed}")
        self._rotten: dict[str, list[Damage]] = {}
        self._failed_before: dict[str, int] = {}  # failed calls that ended their process, by node
        self.damages: list[Damage] = []
        self.fail_stop_ms: list[float] = []
        """The times from a failed call to the end of its process."""
        self.broken: list[str] = []
        """The broken promises of disks."""
        self._hands.asked_of_ends.append(self._explains)

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler for each kind of fault."""
        rotting = dict.fromkeys(ROT, self._rot)
        return {
            "slow": self._slow,
            "full": self._full,
            "fail": self._fail,
            "power": self._power,
            "oldcopy": self._old_copy,
            **rotting,
        }

    # -- disks that do not work

    @asynccontextmanager
    async def _slow(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        delay_ms, on = round(fault.number("by") * 1000), True

        def follow(event: Event) -> None:
            if on and isinstance(event, Led) and event.term >= self._nemesis.watch.term:
                for node_id in self._cluster.nodes:
                    self._disks.slow(node_id, 0 if node_id == event.leader else delay_ms)

        if fault.target == "followers":
            self._nemesis.history.listen(follow)
        for node_id in nodes:
            self._disks.slow(node_id, delay_ms)
        try:
            yield
        finally:
            on = False
            for node_id in self._cluster.nodes if fault.target == "followers" else nodes:
                self._disks.slow(node_id, 0)

    @asynccontextmanager
    async def _full(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        try:
            for node_id in nodes:
                if loop := self._loops.get(node_id):
                    async with self._hands.files(node_id):
                        await asyncio.to_thread(loop.fill, FULL_BYTES)
                else:
                    self._disks.full(node_id, FULL_BYTES)
            yield
        finally:
            for node_id in nodes:
                if loop := self._loops.get(node_id):
                    async with self._hands.files(node_id):
                        await asyncio.to_thread(loop.empty)
                else:
                    self._disks.full(node_id, None)

    @asynccontextmanager
    async def _fail(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        alive = [node_id for node_id in nodes if node_id in self._cluster.running()]
        if not alive:
            raise PassedOver(f"{', '.join(nodes)} down")
        async with AsyncExitStack() as held:
            for node_id in alive:
                await held.enter_async_context(self._hands.may_end(node_id))
            operation = cast(Operation, fault.word("operation"))
            before = {node_id: self._disks.failed_count(node_id) for node_id in alive}
            for node_id in alive:
                self._disks.fail(node_id, operation, getattr(errno, fault.word("errno")))
            watching = [asyncio.create_task(self._fail_stop(node_id, before[node_id])) for node_id in alive]
            try:
                yield
            finally:
                for task in watching:
                    task.cancel()
                for end in await asyncio.gather(*watching, return_exceptions=True):
                    if isinstance(end, Exception):
                        raise end
                for node_id in alive:
                    self._disks.mend(node_id)

    async def _fail_stop(self, node_id: str, before: int) -> None:
        """Wait for the next failed call of this node (`before` counts the earlier ones). Measure how long the process
        lives on after it. More than FAIL_STOP_S and BUSY_S together break a promise."""

        async def failed() -> bool:
            return self._disks.failed_count(node_id) > before

        async def ended() -> bool:
            return node_id not in self._cluster.running() or self._hands.stands_still(node_id)

        await self._cluster.until(failed, f"a disk operation of {node_id}", float("inf"), POLL_S / 4)
        begun_s = time.monotonic()
        try:
            await self._cluster.until(ended, f"the end of {node_id}", FAIL_STOP_S + BUSY_S, POLL_S / 4)
        except ClusterFailed:
            self.broken.append(f"{node_id}: its disk failed, and it ran on for more than {FAIL_STOP_S + BUSY_S} s")
            return
        self.fail_stop_ms.append((time.monotonic() - begun_s) * 1000)

    @asynccontextmanager
    async def _power(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        if self._no_loops:
            raise NotRun(f"needs a file system of its own for each node; there is no {self._no_loops}")
        unsynced = cast(Unsynced, fault.word("unsynced"))
        async with AsyncExitStack() as held:
            await asyncio.gather(*(held.enter_async_context(self._hands.down(node_id)) for node_id in nodes))
            self._nemesis.begun(fault, nodes)
            loops = [self._loops[node_id] for node_id in nodes]
            async with self._hands.files(*nodes):
                await asyncio.gather(*(asyncio.to_thread(loop.cut_power, unsynced) for loop in loops))
                await asyncio.gather(*(asyncio.to_thread(loop.power_on) for loop in loops))
                for node_id in nodes:
                    self._disks.reboot(node_id)
            yield

    # -- disks whose content is wrong

    @asynccontextmanager
    async def _rot(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        (node_id, *_) = nodes
        harmless = fault.kind == "torn"
        async with nullcontext(False) if harmless else self._nemesis.doubt(node_id) as in_doubt:
            async with self._hands.down(node_id):
                self._nemesis.begun(fault, (node_id,))
                data, kind = self._cluster.nodes[node_id].data_path, fault.word("file")
                async with self._hands.files(node_id):
                    await asyncio.to_thread(self._cluster.keep_deliveries, node_id)
                    noted = await asyncio.to_thread(unwritten_rows, data) if kind == DELIVERIES and not harmless else ""
                    file_damage = await asyncio.to_thread(ROT[fault.kind], data, kind, fault.number("at"), self._chance)
                    if file_damage is None:
                        raise PassedOver(f"{node_id} has no such bytes in its {kind}")
                    if harmless:
                        self._disks.reboot(node_id)  # only a power cut tears the end of a file
                    else:
                        await self._wounded(Damage(node_id, file_damage, kind, relied_on=not in_doubt), noted)
                yield
            await self._settle(node_id)

    @asynccontextmanager
    async def _old_copy(self, fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        (node_id, *_) = nodes
        node, kind = self._cluster.nodes[node_id], fault.word("file")
        aside = node.directory / f"old copy {fault.at_s}"
        async with self._hands.down(node_id), self._hands.files(node_id):
            self._nemesis.begun(fault, (node_id,))
            found = [node.data_path] if kind == ALL else rot.files(node.data_path, kind)
            if not found:
                raise PassedOver(f"{node_id} has no {kind}")
            chosen = found[min(int(fault.number("at") * len(found)), len(found) - 1)]
            await asyncio.to_thread(old_copy.copy, chosen, aside)
        try:
            # The copy has forgotten all that the node writes and promises from here on.
            while not await self._cluster.is_ready(node_id) and await self._nemesis.lasts(POLL_S):
                pass
            yield
            if node_id not in self._cluster.nodes:
                raise PassedOver(f"{node_id} was removed meanwhile")
            async with self._nemesis.doubt(node_id):
                async with self._hands.down(node_id), self._hands.files(node_id):
                    if await asyncio.to_thread(old_copy.same, aside, chosen):
                        raise PassedOver(f"nothing was written to {chosen.name} since it was copied")
                    await asyncio.to_thread(self._cluster.keep_deliveries, node_id, last=True)
                    await asyncio.to_thread(old_copy.put_back, aside, chosen)
                    await self._wounded(Damage(node_id, rot.FileDamage(OLD, chosen, 0, 0), kind))
                await self._settle(node_id)
        finally:
            await asyncio.to_thread(old_copy.remove, aside)

    async def _wounded(self, damage: Damage, noted: str = "") -> None:
        """Record a damage, and ask `hourwheel verify` at once if it finds it. `noted` is what verify said before the
        damage about rows of the delivery log that were never written. A zeroed page of that log counts as found if
        verify says something else now."""
        self.damages.append(damage)
        self._nemesis.rotten.add(damage.node)
        damage.log_bytes = self._log_bytes(damage.node)
        said = await asyncio.to_thread(verify_command, self._cluster.nodes[damage.node].data_path)
        lost_rows = damage.kind == DELIVERIES and damage.file_damage.what == rot.ZEROS and unwritten_in(said) != noted
        if said.returncode == ExitCode.DATA or lost_rows:
            damage.found_by.append("verify")
        self._rotten.setdefault(damage.node, []).append(damage)

    def _log_bytes(self, node_id: str) -> int:
        path = self._cluster.nodes[node_id].log_path
        return path.stat().st_size if path.exists() else 0

    async def _explains(self, node_id: str, returncode: int) -> bool:
        """True if a node ended because its disk failed, or because the node or LMDB found damaged files. In the second
        case it gets an empty disk."""
        by_lmdb = any(damage.kind == "catalog" for damage in self._rotten.get(node_id, []))
        if returncode != ExitCode.DATA and not (by_lmdb and returncode == -signal.SIGABRT):
            return False
        if self._disks.failed_count(node_id) > self._failed_before.get(node_id, 0):
            self._failed_before[node_id] = self._disks.failed_count(node_id)
            return True
        if node_id not in self._rotten:
            return False
        async with self._hands.files(node_id):
            for damage in self._rotten.get(node_id, []):
                damage.found_by.append("its node")
            await self._empty(node_id)
        return True

    async def _empty(self, node_id: str) -> None:
        """Give the node an empty directory, and forget its damage. Call it within `holds.files`. Otherwise another
        fault may damage the files meanwhile, and that damage would be forgotten too."""
        await asyncio.to_thread(self._cluster.wipe, node_id)
        self._rotten.pop(node_id, None)
        self._nemesis.rotten.discard(node_id)

    async def _settle(self, node_id: str) -> None:
        """Wait until the damaged node has got an empty disk, or has run on its damaged files for MEETS_S. In that case
        give it an empty disk now. Until then no other disk may be damaged. Return early if all is healed, because
        `heal` then gives it the empty disk."""
        meets_s = MEETS_S
        while node_id in self._rotten and meets_s > 0:
            if await self._cluster.is_ready(node_id):
                meets_s -= LOOK_S
            if not await self._nemesis.lasts(LOOK_S):
                return
        await self._replace(node_id)

    async def heal(self) -> None:
        """Replace the disk of each node that still runs on damaged files. Call it when no fault is on."""
        for node_id in list(self._rotten):
            await self._replace(node_id)
            if node_id in self._cluster.nodes:
                await self._cluster.wait_ready(node_id, timeout_s=READY_S)

    async def _replace(self, node_id: str) -> None:
        """Give a damaged node an empty disk, after each damage was judged that no part had found. If the node was
        removed from the cluster, its damage is harmless."""
        async with self._hands.down(node_id), self._hands.files(node_id):
            several = self._rotten.get(node_id, [])
            if node_id in self._cluster.gone:
                for damage in several:
                    damage.harmless = "its node was removed"
                self._rotten.pop(node_id, None)
            elif several:
                for damage in several:
                    self._judge(damage)
                await self._empty(node_id)

    def _judge(self, damage: Damage) -> None:
        with self._cluster.nodes[damage.node].log_path.open("rb") as log:
            log.seek(damage.log_bytes)
            if OLD_COPY in log.read():
                damage.found_by.append("the other nodes")
        if damage.found_by:
            return
        damage.harmless = _harmless(damage)
        if not damage.harmless:
            self.broken.append(f"{damage.node}: {damage.file_damage.describe()}: found by nobody")


def _harmless(damage: Damage) -> str:
    """The reason why no part had to find this damage. Empty if one had to."""
    old_copy = damage.file_damage.what == OLD
    if damage.kind == DELIVERIES and (old_copy or damage.file_damage.what == rot.CUT):
        return "a node's log of its own hand-overs, not synced: nothing of it is replicated"
    if old_copy or damage.file_damage.mended():
        return "its start made that anew from the journal"
    if damage.kind == "hours" and _left_over(damage.file_damage.path.parent):
        return "no checkpoint names that directory: its start began the hour anew in another one"
    if damage.kind == "journal" and not damage.relied_on:  # the last record: the node finds any other
        return "its node had an empty disk and had not caught up: nothing it promised counted"
    return "a page that nothing refers to" if damage.kind == "catalog" else ""


def _left_over(directory: Path) -> bool:
    """True if the hour of this directory has another directory of a later generation
    (storage/checkpoint/unlinked_hours.py)."""
    beside = [directory_of(path.name) for path in directory.parent.iterdir()]
    own = directory_of(directory.name)
    return own is not None and any(other is not None and other[0] == own[0] and other > own for other in beside)
