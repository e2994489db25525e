"""What the probe sees of a leader: which units it has dispatched, by its own windows and records."""

from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.history.event import Fault, Promoted
from chaos.history.history import History
from chaos.simulator.load.dispatched import Dispatched, replace_call
from chaos.simulator.load.probe import Probe
from node.handover.lease_ahead import LeaseAhead
from node.runtime.clock import NodeClock
from replication.command.topic import PutTopic
from replication.election.median import Median
from replication.raft.options import Peer
from storage.format.message_id import decode_id
from storage.format.rows import Corrupt
from storage.wheel.slot import DueUnits
from tests.node.one_leader import T0, Leader

DUE_MS = T0 + 500
LEASE_MS = 15_000


class Watched:
    """A leader with one strict push topic, promoted at T0, and what the probe says of it."""

    def __init__(self, leader: Leader) -> None:
        leader.propose(PutTopic("default", "orders", {"handover": "strict", "mode": "push"}, replace=False))
        leader.promote(T0)
        self.leader = leader
        leader_term: Any = SimpleNamespace(dispatcher=leader.dispatcher, handing_over=leader.dispatcher.handing_over)
        group: Any = SimpleNamespace(store=leader.store)
        self.dispatched = Dispatched(group, leader_term)

    def schedule(self) -> int:
        """A message due at DUE_MS; its position."""
        (position,) = self.leader.schedule(DUE_MS)
        self.dispatched.made(self.leader.machine.applied_index, [(position, DUE_MS)])
        return position

    def lease_ahead(self) -> None:
        """What is due soon is planned, and its Lease applied."""
        handing_over, topic, now_ms = self.leader.dispatcher.handing_over, self.leader.subscription(), DUE_MS - 90
        self.leader.run(now_ms)
        handing_over.plan(topic, handing_over.lease_ahead.stage(topic, 9, now_ms), LEASE_MS, now_ms, trusted=True)
        self.leader.commit(now_ms + 5)

    def left_out(self) -> list[tuple[int, int]]:
        """What a state that names the second of DUE_MS leaves out."""
        return self.dispatched.left_out(DUE_MS // 1000 + 1, self.leader.machine.applied_index)


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Leader]:
    """On a store of its own, not promoted."""
    leader = Leader(tmp_path / "store")
    yield leader
    leader.store.close()


def test_a_planned_push_taken_back_after_its_time_was_dispatched(leader: Leader) -> None:
    """Seed 8432: the wheel gave the unit out at its millisecond, and its lease ran. A transfer took the lease back
    1.4 s later, and the next state came before the look that finds it again."""
    watched = Watched(leader)
    watched.schedule()
    watched.lease_ahead()
    leader.run(DUE_MS)
    leader.dispatcher.handing_over.strict.withdraw_all()
    leader.commit(DUE_MS + 1_400)
    assert watched.left_out() == []


def test_what_was_dispatched_before_a_state_reached_its_entry_is_not_left_out_by_the_next(leader: Leader) -> None:
    """Seed 42952: a leader that had stood still dispatched a unit in the step that applied it, and the state of that
    step spoke of the entries before."""
    watched = Watched(leader)
    watched.schedule()
    leader.run(DUE_MS)
    before = leader.machine.applied_index - 1
    assert watched.dispatched.left_out(DUE_MS // 1000 + 1, before) == []
    assert watched.left_out() == []


def test_a_promotion_on_damaged_records_is_told_without_what_is_open() -> None:
    """Seed 42992: a bit of the index was flipped, and the probe read it before the node did."""

    def damaged() -> list[int]:
        raise Corrupt("index", 13_888, "checksum of row 216", 1, 2)

    probe, history = Probe.__new__(Probe), History()
    probe._history = history
    replace_call(probe, "_watch_state", lambda *node: None)
    store = SimpleNamespace(open_hours=damaged)
    group: Any = SimpleNamespace(
        store=store,
        clock=SimpleNamespace(now_ms=lambda: T0),
        leader_term=SimpleNamespace(term=3),
        raft=SimpleNamespace(given=False),
    )
    with pytest.raises(Corrupt):
        probe._promoted("n1", group)
    history.record(Fault(mono_ms=1.0, wall_ms=1, kind="flip", node="n1", role="leader", phase="begin", detail=""))
    probe._promoted("n1", group)
    (promoted,) = history.of(Promoted)
    assert (promoted.node, promoted.term, promoted.open_ids, promoted.given) == ("n1", 3, (), False)


def test_a_planned_push_taken_back_before_its_time_is_dispatched_by_the_wheel(leader: Leader) -> None:
    """Until then a state that names its second leaves it out."""
    watched = Watched(leader)
    position = watched.schedule()
    watched.lease_ahead()
    leader.dispatcher.handing_over.strict.withdraw_all()
    leader.commit(DUE_MS - 10)
    assert watched.left_out() == [(position, DUE_MS)]
    watched.dispatched.made(leader.machine.applied_index, [(position, DUE_MS)])
    leader.run(DUE_MS)
    assert watched.left_out() == []


def test_what_the_crowd_left_is_nobodys_to_bring_back(leader: Leader) -> None:
    """Seed 8359: acks of the crowd's messages were on their way when a leader fell, and applied in the next term. No
    history tells of them, and every checker took the messages for forgotten ones."""
    leader.schedule(DUE_MS)
    leader.schedule(DUE_MS, topic="crowd")
    leader.promote(T0)
    world: Any = SimpleNamespace(after=lambda *_: None)
    leader_term = SimpleNamespace(
        term=7, dispatcher=leader.dispatcher, handing_over=leader.dispatcher.handing_over, collect=None
    )
    group: Any = SimpleNamespace(
        store=leader.store,
        leader_term=leader_term,
        clock=SimpleNamespace(now_ms=lambda: DUE_MS),
        raft=SimpleNamespace(given=True),
    )
    history = History()
    Probe(world, history)._promoted("n1", group)
    (promoted,) = history.of(Promoted)
    (unit,) = leader.pull(DUE_MS)
    assert [decode_id(name).position for name in promoted.open_ids] == [unit]


def test_what_the_wheel_gave_out_and_neither_a_window_nor_a_lease_has_is_left_out(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted mistake: what is to be pushed strictly counts as on its way though nobody leased it."""
    monkeypatch.setattr(LeaseAhead, "unplanned", lambda self, due: DueUnits.empty())
    watched = Watched(leader)
    position = watched.schedule()
    leader.run(DUE_MS)
    assert watched.left_out() == [(position, DUE_MS)]


def test_46825_what_a_leaders_clock_showed_before_it_was_slewed_back_is_the_latest_of_its_term() -> None:
    """Its wall clock had been set back by four seconds, so it went half a millisecond back in a second. A state of
    that moment names what was due by what the clock had shown; its stamp is a millisecond earlier."""
    monotonic, wall = [100.0], [1_000.0]
    clock = NodeClock(lambda: wall[0], lambda: monotonic[0])
    clock.leading = True
    probe = Probe.__new__(Probe)
    probe._shown_ms = {}
    group: Any = SimpleNamespace(clock=clock, raft=SimpleNamespace(term=4))
    probe._watch_clock("n1", group)
    monotonic[0] = 101.0
    shown_ms = clock.now_ms()
    wall[0] -= 4.0
    clock.slew()
    assert clock.now_ms() == shown_ms - 1
    assert probe._shown_ms == {4: shown_ms}


def test_49132_a_clock_is_bound_by_what_was_heard_longest_ago() -> None:
    """One peer echoed in this term; the median that the leader before told stands for the one that is cut off. The
    clock ran 2% wrong for all that time."""
    monotonic = [112.0]
    clock = NodeClock(lambda: 1_000.0, lambda: monotonic[0])
    clock.leading = True
    heard, away = Peer("n2", last_clock_s=111.5), Peer("n3")
    raft = SimpleNamespace(term=4, peers={"n2": heard, "n3": away}, median=Median(1_000_000, 110.7))
    skew: Any = SimpleNamespace(known=raft.median, hears=lambda peer: peer is heard, voters=[heard, away])
    group: Any = SimpleNamespace(clock=clock, raft=raft, skew=skew)
    probe = Probe.__new__(Probe)
    probe._shown_ms, probe._known_s = {}, {}
    probe._watch_clock("n1", group)
    clock.bound(0.0)
    assert probe._known_s == {"n1": 110.7}
    skew.hears = lambda peer: True
    away.last_clock_s = 111.9
    clock.bound(0.0)
    assert probe._known_s == {"n1": 111.5}
    skew.hears, skew.known = lambda peer: False, None
    clock.bound(0.0)
    assert probe._known_s == {"n1": 112.0}


def test_1614_a_new_leader_has_not_heard_every_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five clocks two are fast, the leader's among them. One of the slow ones came back a moment before, and no
    echo of it has come. A second into the term the leader is bound by all clocks that are connected."""
    ahead_ms = {"n1": 440.0, "n2": 444.0, "n3": -325.0, "n4": -440.0, "n5": -443.0}
    unheard, leader_term = Peer("n5", connected=True), object()
    peers = {name: Peer(name, connected=True) for name in ("n2", "n3", "n4")} | {"n5": unheard}
    skew: Any = SimpleNamespace(hears=lambda peer: peer is not unheard)
    group: Any = SimpleNamespace(leader_term=leader_term, raft=SimpleNamespace(peers=peers), skew=skew)
    process = SimpleNamespace(alive=True, paused=False, node=SimpleNamespace(group=group))
    world: Any = SimpleNamespace(
        processes=dict.fromkeys(ahead_ms, process), network=SimpleNamespace(is_cut=lambda *_: False)
    )
    probe = Probe.__new__(Probe)
    probe._world, probe._leading, probe._medians_ms = world, {}, defaultdict(lambda: deque(maxlen=2))
    monkeypatch.setattr(probe, "_ahead_ms", ahead_ms.__getitem__)
    assert probe._median_ms("n1") == 440
    probe._leading["n1"] = leader_term
    for wanted in (440, 440, -325, -325):
        assert probe._median_ms("n1") == wanted
        probe._medians_ms["n1"].append(wanted)
