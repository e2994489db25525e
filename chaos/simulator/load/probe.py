"""Looks into simulated nodes and records in the history what only the simulator can see.

A probe changes nothing that a node does: it passes every call on and takes no time. A node's event is recorded at the
true moment when it happens.
"""

from __future__ import annotations

import statistics
import zlib
from collections import defaultdict, deque
from typing import Any, Final

import numpy as np

from chaos.history.event import Applied, Begun, Ended, LeftOut, Promoted, SetBack, Settled, Sure
from chaos.history.history import History
from chaos.simulator.load.crowd import TOPIC as CROWD
from chaos.simulator.load.dispatched import Dispatched, replace_call
from chaos.simulator.time.cost import free
from chaos.simulator.world.world import World
from node.group.group import Group
from node.handover.delivery_log import FAILED, PUSH
from replication.apply.message.attempt_order import fence
from replication.command.entry import EntryRefused, Kind, decode_entry
from storage.format.array import U64
from storage.format.batches import SettleBatch
from storage.format.message_id import encode_ids
from storage.format.position import HOUR_MS
from storage.format.rows import Corrupt
from storage.format.states import LEASED
from storage.store import Store

#: The time between two looks at which nodes are sure to lead.
LOOK_S: Final = 0.01
#: A leader learns of a change of the median of the clocks within this time. It hears echoes, and looks at them
#: (node.upkeep.housekeeping).
LEARNS_S: Final = 1.0

Name = tuple[str, int, int]  # (message id, term, attempt): names one hand-over


class Probe:
    """The probe of one world. Call `watch` with every new group before its node runs. `begun` has the first record of
    each hand-over."""

    def __init__(self, world: World, history: History) -> None:
        self.begun: dict[Name, Begun] = {}
        self._world = world
        self._history = history
        self._told: set[int] = set()  # indexes of recorded entries
        self._units: list[tuple[int, int]] = []  # made by the entry that is being applied
        self._entry = 0  # index of the entry that its first node applies now, else 0
        self._leading: dict[str, object] = {}
        self._wheels: dict[str, Dispatched] = {}
        self._over = False
        #: By leader: how far the median of the clocks was ahead of the truth at each look of the last LEARNS_S.
        self._medians_ms: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=round(LEARNS_S / LOOK_S)))
        self._known_s: dict[str, float] = {}  # by leader: monotonic second at which it heard what bounds its clock
        self._shown_ms: dict[int, int] = {}  # by term: the latest time from which its leader's clock was set back
        world.after(LOOK_S, self._look)

    def stop(self) -> None:
        """Stop looking for nodes that are sure to lead."""
        self._over = True

    def watch(self, node_id: str, group: Group) -> None:
        """Observe the group of one incarnation of a node."""
        self._watch_apply(node_id, group)
        self._watch_deliveries(node_id, group)
        self._watch_clock(node_id, group)

    # -- entries

    def _watch_apply(self, node_id: str, group: Group) -> None:
        apply, append, machine = group.machine.apply, group.store.append, group.machine

        def appended(batch: Any) -> U64:
            positions = append(batch)
            self._units += zip(positions.tolist(), batch.due_ms.tolist(), strict=True)
            return positions

        def applied(index: int, term: int, entry: bytes) -> Any:
            self._units = []
            self._entry = index if index not in self._told else 0
            before = (machine.tick, machine.local_index, machine.dispatched.applied_index)
            result = apply(index, term, entry)
            after = (machine.tick, machine.local_index, machine.dispatched.applied_index)
            self._tell(node_id, group, index, term, entry, None if after == before else after)
            wheel = self._wheels.get(node_id)
            if wheel is not None:
                wheel.made(index, self._units)
            return result

        def settled(batch: SettleBatch) -> None:
            self._look_back(node_id, group, batch)
            settle(batch)
            if self._entry:
                self._settled(group, batch)

        settle = group.store.settle
        replace_call(group.store, "append", appended)
        replace_call(group.store, "settle", settled)
        replace_call(group.raft, "_apply_command", applied)

    @free
    def _tell(
        self, node_id: str, group: Group, index: int, term: int, entry: bytes, state: tuple[int, int, int] | None
    ) -> None:
        told: dict[str, Any] = {}
        if index not in self._told:
            self._told.add(index)
            try:
                envelope = decode_entry(entry)
            except EntryRefused:
                pass  # all nodes refuse it: there is nothing to record
            else:
                kinds = {section.kind for section in envelope.sections}
                told = {"stamp_ms": envelope.now_ms, "state": state, "realigned": Kind.REALIGN in kinds}
                told["units"] = tuple(self._units)
                told |= {"shown_ms": self._shown_ms.get(term, 0)}
                told |= {"version": envelope.version, "raises": Kind.RAISE_LEVEL in kinds}
        self._history.record(
            Applied(
                **self._history.stamp(),
                node=node_id,
                index=index,
                term=term,
                crc=zlib.crc32(entry),
                rolling=group.machine.rolling_hash.hex(),
                **told,
            )
        )

    @free
    def _look_back(self, node_id: str, group: Group, batch: SettleBatch) -> None:
        """Record each lease that is about to be recorded though a newer hand-over of its unit is known. The fence
        should keep such leases out."""
        leases = (batch.what == LEASED).nonzero()[0]
        if not len(leases):
            return
        states = group.store.states(batch.position[leases])
        older = fence(batch.term[leases], batch.attempt[leases]) < fence(states.term, states.attempt)
        for row in older.nonzero()[0].tolist():
            at = leases[row]
            self._history.record(
                SetBack(
                    **self._history.stamp(),
                    node=node_id,
                    position=int(batch.position[at]),
                    fence=(int(batch.term[at]), int(batch.attempt[at])),
                    newest=(int(states.term[row]), int(states.attempt[row])),
                )
            )

    @free
    def _settled(self, group: Group, batch: SettleBatch) -> None:
        """Record what an entry did to messages (`Settled`). Leases are left out."""
        rows = np.flatnonzero(batch.what != LEASED)
        if not len(rows):
            return
        records = group.store.records(batch.position[rows])
        homes = np.array([record.position for record in records], np.uint64)
        ids = _ids(group.store, homes, np.array([record.random for record in records], np.uint64))
        for row, name in zip(rows.tolist(), ids, strict=True):
            self._history.record(
                Settled(
                    **self._history.stamp(),
                    message_id=name,
                    index=self._entry,
                    what=int(batch.what[row]),
                    term=int(batch.term[row]),
                    attempt=int(batch.attempt[row]),
                    code=int(batch.code[row]),
                )
            )

    # -- hand-overs

    def _watch_deliveries(self, node_id: str, group: Group) -> None:
        log = group.delivery_log
        start, end = log.start, log.end

        def started(**columns: Any) -> None:
            start(**columns)
            self._begun(node_id, group, columns)

        def ended(**columns: Any) -> None:
            end(**columns)
            if columns["mode"] == PUSH and columns["outcome"] == FAILED:
                self._failed(node_id, group, columns)

        replace_call(log, "start", started)
        replace_call(log, "end", ended)

    @free
    def _begun(self, node_id: str, group: Group, columns: dict[str, Any]) -> None:
        ids = _ids(group.store, columns["home"], columns["random"])
        asked = np.broadcast_to(columns["asked_due_ms"], len(ids)).tolist()
        places = group.store.locate(columns["home"])
        due, states = group.store.units(places)["due_ms"].tolist(), group.store.states(places)
        leased = (states.term == columns["term"]) & (states.attempt == columns["attempt"])
        ends = np.where(leased, states.lease_end_ms, 0).tolist()
        median_ms = max([*self._medians_ms[node_id], self._median_ms(node_id)])
        rows = zip(ids, columns["attempt"].tolist(), asked, due, ends, strict=True)
        for name, attempt, asked_due_ms, due_ms, leased_until_ms in rows:
            event = Begun(
                **self._history.stamp(),
                node=node_id,
                message_id=name,
                term=columns["term"],
                attempt=attempt,
                at_ms=columns["at_ms"],
                asked_due_ms=asked_due_ms,
                pushed=columns["mode"] == PUSH,
                due_ms=due_ms,
                median_ahead_ms=median_ms,
                known_s=group.clock.monotonic() - self._known_s[node_id],
                leased_until_ms=leased_until_ms,
            )
            self.begun.setdefault((name, columns["term"], attempt), event)
            self._history.record(event)

    def _failed(self, node_id: str, group: Group, columns: dict[str, Any]) -> None:
        ids = _ids(group.store, columns["home"], columns["random"])
        terms = np.broadcast_to(columns["term"], len(ids)).tolist()
        for name, term, attempt in zip(ids, terms, columns["attempt"].tolist(), strict=True):
            self._history.record(
                Ended(**self._history.stamp(), node=node_id, message_id=name, term=term, attempt=attempt)
            )

    # -- clocks

    def _watch_clock(self, node_id: str, group: Group) -> None:
        """Note the latest time that a leader's clock showed before it was set back, by the bound of the median or by a
        slew."""
        bound, slew, clock = group.clock.bound, group.clock.slew, group.clock

        def shown(before_ms: int) -> None:
            if clock.leading and clock.now_ms() < before_ms:
                term = group.raft.term
                self._shown_ms[term] = max(self._shown_ms.get(term, 0), before_ms)

        def bounded(median_ms: float) -> None:
            before_ms = clock.now_ms()
            bound(median_ms)
            shown(before_ms)
            self._known_s[node_id] = _known_since_s(group)

        def slewed() -> bool:
            before_ms = clock.now_ms()
            stepped = slew()
            shown(before_ms)
            return stepped

        replace_call(clock, "bound", bounded)
        replace_call(clock, "slew", slewed)

    def _median_ms(self, leader: str) -> float:
        """How far the median of the nodes' clocks is ahead of the truth, as far as this leader can know it. A node that
        is down, paused or not connected counts as if its clock agreed with the leader's. So does one that was not heard
        yet, in the first LEARNS_S of a term (seed 1614). The leader counts it at the last known median
        (node/cluster/clock_skew.py), so a leader that is ahead is judged more leniently here."""
        own_ms = self._ahead_ms(leader)
        leading = self._world.processes[leader].node
        peers = leading.group.raft.peers if leading is not None else {}
        new = leading is not None and self._is_new(leader, leading.group)
        ahead_ms = [own_ms]
        for name, process in self._world.processes.items():
            if name != leader:
                cut = self._world.network.is_cut(name, leader) or self._world.network.is_cut(leader, name)
                connected = name in peers and peers[name].connected
                heard = connected and process.alive and not process.paused and not cut
                if new and leading is not None:
                    heard = heard and leading.group.skew.hears(peers[name])
                ahead_ms.append(self._ahead_ms(name) if heard else own_ms)
        return statistics.median_high(ahead_ms)

    def _is_new(self, leader: str, group: Group) -> bool:
        """True in the first LEARNS_S of a term."""
        seen, looks = self._leading.get(leader) is group.leader_term, self._medians_ms[leader]
        return not seen or len(looks) < (looks.maxlen or 0)

    def _ahead_ms(self, name: str) -> float:
        process = self._world.processes[name]
        node = process.node if process.alive else None
        return process.clock.skew_s * 1000 - (node.group.clock.error_ms() if node is not None else 0.0)

    # -- leadership

    def _look(self) -> None:
        """Record each node that is sure to lead at this moment, and each new term."""
        if self._over:
            return
        for node_id in sorted(self._world.processes):
            process = self._world.processes[node_id]
            node = process.node
            if node is None or not process.alive or process.paused or node.group.leader_term is None:
                continue
            if self._leading.get(node_id) is not node.group.leader_term:
                self._leading[node_id] = node.group.leader_term
                self._medians_ms[node_id].clear()
                self._promoted(node_id, node.group)
            self._medians_ms[node_id].append(self._median_ms(node_id))
            if node.group.leader_term.trusted():
                self._history.record(Sure(**self._history.stamp(), node=node_id, term=node.group.leader_term.term))
        self._world.after(LOOK_S, self._look)

    def _promoted(self, node_id: str, group: Group) -> None:
        """Record that a term begins, and which messages are open by this node's records. No messages are recorded if a
        fault has flipped a bit of those records, and the node has not read them yet (seed 42992)."""
        self._watch_state(node_id, group)
        open_ids: tuple[str, ...] = ()
        try:
            open_ids = _open_ids(group.store, group.clock.now_ms())
        except Corrupt:
            if not self._history.flipped(node_id):
                raise
        assert group.leader_term is not None
        event = Promoted(
            **self._history.stamp(),
            node=node_id,
            term=group.leader_term.term,
            open_ids=open_ids,
            given=group.raft.given,
        )
        self._history.record(event)

    def _watch_state(self, node_id: str, group: Group) -> None:
        """Compare each dispatch state that this term proposes with the units that it dispatched."""
        leader_term = group.leader_term
        assert leader_term is not None
        wheel = self._wheels[node_id] = Dispatched(group, leader_term)
        collect = leader_term.collect

        def collected(now_ms: int, *, going: bool) -> Any:
            riding = collect(now_ms, going=going)
            if riding.state is not None and self._wheels.get(node_id) is wheel:
                left = wheel.left_out(riding.state.tick, riding.state.applied_index)
                for position, due_ms in left:
                    self._history.record(
                        LeftOut(
                            **self._history.stamp(),
                            node=node_id,
                            term=leader_term.term,
                            position=position,
                            due_ms=due_ms,
                            tick=riding.state.tick,
                        )
                    )
            return riding

        replace_call(leader_term, "collect", collected)


def _ids(store: Store, homes: U64, random: U64) -> list[str]:
    ids: list[str] = encode_ids(store.group, homes, random).astype("U26").tolist()
    return ids


def _open_ids(store: Store, now_ms: int) -> tuple[str, ...]:
    """The ids of the load's messages that are due, have not ended, and have no lease that runs. The crowd's messages
    are left out, because no client records their acks. Raises Corrupt."""
    found: list[U64] = []
    for hour in store.open_hours():
        if hour > now_ms // HOUR_MS:
            continue
        leased = store.leased(hour)
        found += [store.pending(hour, now_ms + 1).position, leased.position[leased.lease_end_ms <= now_ms]]
    crowd = store.catalog.topic(CROWD)
    records = [
        record
        for record in store.records(np.concatenate([np.empty(0, np.uint64), *found]))
        if crowd is None or record.topic != crowd.number
    ]
    homes = np.array([record.position for record in records], np.uint64)
    random = np.array([record.random for record in records], np.uint64)
    return tuple(sorted(_ids(store, homes, random)))


def _known_since_s(group: Group) -> float:
    """The monotonic second at which the leader heard the oldest of the other clocks' times by which it bounds its own
    clock."""
    skew, now_s = group.skew, group.clock.monotonic()
    told_s = skew.known.at_s if skew.known is not None else now_s
    return min((peer.last_clock_s if skew.hears(peer) else told_s for peer in skew.voters), default=now_s)
