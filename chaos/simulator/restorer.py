"""Restores a cluster from a backup of a run, and asks it about messages with which the old cluster went on.

In the middle of the load a client asks for a backup. At the end of the run another world begins at that moment of true
time. One node starts on the restored backup, the others start empty. Its receivers and consumers get messages, some of
them for the second time. Messages of the backup are asked about and cancelled. In half of the runs the leader loses
power meanwhile. The history of the run gets the answers. chaos/check/message/restored.py compares them with the
deliveries of both clusters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec.structs import asdict

from api.port.port import ANONYMOUS, PullIn
from chaos.check.message.restored import held
from chaos.client.outcome import Outcome
from chaos.history.event import Answered, BackedUp, Recalled
from chaos.history.history import History
from chaos.plan.fault_plan import FaultPlan
from chaos.simulator.load.client import PortClient, caller_of, ledger_of
from chaos.simulator.load.load import IDLE, PULL, STRICT_PULL
from chaos.simulator.world.receivers import Behaviour, Received
from chaos.simulator.world.world import EPOCH_S, World
from replication.journal.install import install_restored
from storage.directory.restore import RestoreOptions, restore
from storage.directory.snapshot_install import InstallRefused
from storage.file.disk import Disk

T = TypeVar("T")

START_S: Final = 30.0
BACKUP_S: Final = 10.0
AGAIN_S: Final = 1.0
CALL_S: Final = 20.0
#: The number of the backup's messages that are asked about, most of them within ASKS_S.
ASKED: Final = 60
ASKS_S: Final = 6.0
CUT_S: Final = 3.0
DOWN_S: Final = 1.0
PULLS: Final = 4
OVER_S: Final = 120.0

Settings = Mapping[str, Mapping[str, Any]]


class Restorer:
    """Makes the backup of a run whose plan asks for one, and runs the restored cluster at the end of the run."""

    def __init__(self, world: World, history: History, plan: FaultPlan, config: Settings) -> None:
        self._world, self._history, self._plan, self._config = world, history, plan, config
        self._caller = caller_of(world, "restorer")
        self._backup: Path | None = None
        self._of = ""  # the node that made it

    def begin(self) -> None:
        """Plan the backup for its moment. Call it when the load begins."""
        self._caller.runner.after(self._plan.backup, self._ask)

    async def _ask(self) -> None:
        """Ask a node for a backup, and another node if the first cannot make it."""
        for _ in range(int(BACKUP_S / AGAIN_S)):
            client = self._caller.any()
            outcome = await client.call(lambda port: port.snapshot(None), "snapshot", leader=False, timeout_s=CALL_S)
            view = outcome.value
            if view is not None:
                self._backup, self._of = Path(view.directory), view.node
                stamp = self._history.stamp()
                self._history.record(BackedUp(**stamp, node=view.node, applied_index=view.applied_index))
                return
            await self._caller.runner.sleep(AGAIN_S)

    def run(self) -> list[str]:
        """Run the restored cluster. Return a line for each step that failed: none if all went well, or if there is no
        backup."""
        if self._backup is None:
            return []
        world = self._world
        begins_s = world.epoch_s + world.now_s
        plan, directory = self._plan, world.directory / "restored"
        later: dict[str, Any] = {"turn_s": EPOCH_S - begins_s, "skew_ms": plan.skew, "config": self._config}
        with World(plan.seed, directory, nodes=plan.nodes, **later) as restored:
            first = self._caller.chance.choice(restored.ids)
            if not self._restore(restored, first, self._backup):
                return []
            return Restored(restored, self._history, world.now_s * 1000, self._caller.chance.random() < 0.5).run()

    def _restore(self, restored: World, node_id: str, backup: Path) -> bool:
        """Restore the backup to this node's directory as the command does, with a cluster id and a store id that are
        drawn. False if the command refuses the backup, because a fault had flipped a bit on the disk of the backup's
        node. That node had not read the bit since (seed 42722)."""
        drawn = self._caller.chance
        cluster_id, disk = drawn.randbytes(16), Disk()
        options = RestoreOptions(
            node_id=node_id, cluster_id=cluster_id, store_id=drawn.randbytes(16), now_ms=restored.now_ms
        )
        directory = restored.processes[node_id].platter.root
        try:
            restore(backup, directory, options, partial(install_restored, disk=disk, cluster_id=cluster_id), disk)
        except InstallRefused:
            if not self._history.flipped(self._of):
                raise
            return False
        return True


class Restored:
    """The restored cluster and its clients. `begins_ms` is the run's time at which this world begins. `cut`: cut its
    leader's power in the middle."""

    def __init__(self, world: World, history: History, begins_ms: float, cut: bool) -> None:
        self._world, self._history, self._begins_ms, self._cut = world, history, begins_ms, cut
        self._caller = caller_of(world, "restored")
        self._again: dict[str, set[tuple[int, int]]] = defaultdict(set)
        self._cancelled: set[str] = set()  # ids for which a cancel was sent
        self._in_flight = 0
        for name in ("mixed", "strict"):  # at the addresses in the topics
            world.receivers.behave(name, Behaviour())
        world.receivers.behave("poison", Behaviour(status=500))
        world.receivers.on_received = self._received

    def run(self) -> list[str]:
        """Start the cluster, ask about messages, deliver some, and wait for the answers. Return a line for each step
        that failed."""
        world, chance, runner = self._world, self._caller.chance, self._caller.runner
        world.start()
        if not world.run_until(lambda: world.leader() is not None, START_S):
            return ["the restored cluster has no leader"]
        asked = self._drawn()
        for message in asked:
            for ask in chance.choice([(self._cancel,), (self._account,), (self._account, self._cancel), ()]):
                runner.after(ASKS_S * chance.random(), ask, message)
        for topic in (PULL, STRICT_PULL, IDLE):
            for _ in range(PULLS):
                runner.after(ASKS_S * chance.random(), self._pull, topic)
        world.run(CUT_S)
        if self._cut and not self._lose_leader():
            return ["the restored cluster got no second leader"]
        world.run(ASKS_S)
        for message in asked:
            runner.start(self._account(message))
        over = world.run_until(lambda: not self._in_flight, OVER_S)
        return [] if over else [f"{self._in_flight} requests to the restored cluster without an answer"]

    def _drawn(self) -> Sequence[Answered]:
        """Some messages of the backup: first those that were open in it, then ended ones."""
        known = self._history.acknowledged()
        open_, ended = held(self._history)
        chance = self._caller.chance
        several: list[int] = []
        for numbers in (sorted(open_), sorted(ended)):
            several += chance.sample(numbers, min(ASKED - len(several), len(numbers)))
        return [known[number] for number in several]

    def _lose_leader(self) -> bool:
        """Cut the leader's power, once all nodes are voters, so that the others have the content of the backup. True if
        another node leads afterwards."""
        world = self._world

        def ready() -> bool:
            node = world.nodes().get(world.leader() or "")
            return node is not None and all(node.group.members.role(each) == "voter" for each in world.ids)

        if not world.run_until(ready, START_S):
            return False
        lost = world.leader() or ""
        world.processes[lost].power_cut(torn=True)
        world.after(DOWN_S, world.processes[lost].start)
        return world.run_until(lambda: world.leader() not in (None, lost), START_S)

    # -- repeated deliveries

    def _received(self, received: Received) -> None:
        self._again[received.id].add((received.term, received.attempt))

    async def _pull(self, topic: str) -> None:
        chance = self._caller.chance
        request = PullIn(topic, max=chance.choice([1, 5, 20]), wait_ms=500)
        client = self._caller.any()
        outcome = await client.call(lambda port: port.pull(request, ANONYMOUS), f"pull {topic}", pulls=True)
        deliveries = outcome.value or ()
        for delivery in deliveries:
            self._again[delivery.id].add((delivery.term, delivery.attempt))
        receipts = [delivery.receipt for delivery in deliveries if chance.random() < 0.5]
        if receipts:
            await self._insist(lambda client: client.ack(topic, receipts))

    # -- questions

    async def _cancel(self, message: Answered) -> None:
        # Ask once: a repeated cancel could find the effect of the first.
        self._in_flight += 1
        self._cancelled.add(message.message_id)
        outcome = await self._caller.any().cancel(message.message_id)
        self._in_flight -= 1
        told = outcome.value
        if told is not None:
            self._record(message, "cancelled", prior=told.prior, attempts_made=told.attempts_made)
        else:
            self._unknown(message, outcome)

    async def _account(self, message: Answered) -> None:
        name = message.message_id
        # A delivery that comes while the ledger is read may be in it, or not.
        before = len(self._again[name])
        outcome = await self._insist(lambda client: client.call(lambda port: port.message_ledger(name), "account"))
        if outcome.value is None:
            self._unknown(message, outcome)
        else:
            self._record(message, "accounted", again=before, **asdict(ledger_of(outcome.value)))

    async def _insist(self, ask: Callable[[PortClient], Awaitable[Outcome[T]]]) -> Outcome[T]:
        self._in_flight += 1
        outcome = await self._caller.insist(ask, for_s=CALL_S, again=True)
        self._in_flight -= 1
        return outcome

    def _unknown(self, message: Answered, outcome: Outcome[Any]) -> None:
        """Record that this cluster does not know a message. Do not record it if the message may have ended in this
        cluster, because ended messages may be forgotten."""
        ended = message.message_id in self._cancelled or self._again[message.message_id]
        if outcome.code == "unknown-message" and not ended:
            self._record(message, "unknown-message")

    def _record(self, message: Answered, answer: Any, **told: Any) -> None:
        told.setdefault("again", len(self._again[message.message_id]))
        self._history.record(
            Recalled(
                mono_ms=self._begins_ms + self._world.now_s * 1000,
                wall_ms=self._world.now_ms,
                number=message.number,
                message_id=message.message_id,
                answer=answer,
                **told,
            )
        )
