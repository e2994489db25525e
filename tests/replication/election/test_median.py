"""What heartbeats and echoes tell of clocks, where they waited on the way."""

from pathlib import Path

import pytest

from replication.election.median import SLOW_S, MedianHeard
from replication.raft.options import Peer
from replication.wire.frame import Message
from tests.replication.sim_network import SimNetwork

BEAT_S = 0.05
AHEAD_S = 1_000.0
"""The leader's monotonic clock is ahead of ours by so much."""


class Heard:
    """Heartbeats of leaders whose median shows our own time, 1,000 ms a second."""

    def __init__(self) -> None:
        self.median = MedianHeard(BEAT_S)

    def beat(self, sent_s: float, came_s: float, leader: str = "a", ahead_s: float = AHEAD_S) -> bool:
        """One that was sent and came at these of our seconds."""
        return self.median.hear((leader, 1), sent_s + ahead_s, int(sent_s * 1000), came_s)

    def off_ms(self) -> float:
        """How far the median seems to be from our clock."""
        assert self.median.told is not None
        return self.median.told.ms - self.median.told.at_s * 1000


@pytest.mark.parametrize("stood_s", [5, 60])
def test_a_heartbeat_that_waited_while_this_process_stood_still_does_not_count(stood_s: int) -> None:
    """A follower was stopped: all that waited in its socket comes in one moment, and none of it counts."""
    heard = Heard()
    for turn in range(20):
        heard.beat(turn * BEAT_S, turn * BEAT_S + 0.001)
    assert abs(heard.off_ms()) <= 2
    resumed_s = 1.03 + stood_s
    for turn in range(20, 20 + int(stood_s / BEAT_S)):
        heard.beat(turn * BEAT_S, resumed_s)
        assert abs(heard.off_ms()) <= 2, turn
    heard.beat(resumed_s, resumed_s + 0.001)
    assert heard.beat(resumed_s + BEAT_S, resumed_s + BEAT_S + 0.001)
    assert abs(heard.off_ms()) <= 2


def test_of_a_new_leader_the_first_heartbeats_may_have_waited_too() -> None:
    """It was elected while this process was stopped. Nothing of its counts before one that the next does not beat."""
    heard = Heard()
    for turn in range(40):
        assert not heard.beat(turn * BEAT_S, 2.5, "b")
    assert heard.median.told is None
    assert not heard.beat(2.5, 2.501, "b")
    assert heard.beat(2.55, 2.551, "b")
    assert abs(heard.off_ms()) <= 2


def test_a_way_that_has_grown_longer_for_good_is_believed_in_the_end() -> None:
    """Until then what was told before stands."""
    heard = Heard()
    heard.beat(0, 0.001)
    assert heard.beat(BEAT_S, BEAT_S + 0.001)
    counted = [heard.beat(turn * BEAT_S, turn * BEAT_S + 0.2) for turn in range(2, 400)]
    assert counted.index(True) * BEAT_S >= SLOW_S - 1
    assert all(counted[counted.index(True) :])


def test_clocks_that_run_at_other_rates_do_not_part() -> None:
    """100 ppm for an hour: heartbeats count all the time."""
    heard = Heard()
    counted = [heard.beat(at, at + 0.001, ahead_s=AHEAD_S - at * 1e-4) for at in range(3_600)]
    assert counted == [False] + [True] * 3_599


def test_12185_a_follower_is_told_how_much_less_the_median_may_be(tmp_path: Path) -> None:
    """A leader of a build before protocol 3 does not say it."""
    network = SimNetwork(tmp_path)
    network.ahead_ms["A"] = (300, 66)
    network.elect("A")
    network.run(1)
    group = network.nodes["B"].group
    assert group.median is not None
    assert group.median.ms - group.median.at_s * 1000 == pytest.approx(-300, abs=3)
    assert group.median.slack_ms == 66
    network.protocol = 2
    network.run(1)
    assert group.median.slack_ms == 0


def test_a_node_that_was_stopped_takes_its_clock_for_no_worse(tmp_path: Path) -> None:
    """As it reads what has piled up in its sockets it hears where the median was, seconds ago."""
    network = SimNetwork(tmp_path)
    network.elect("A")
    network.run(1)
    group = network.nodes["B"].group
    network.pause("B")
    network.run(0.35)

    def off_ms() -> float:
        assert group.median is not None
        return group.median.ms - group.median.at_s * 1000

    before = off_ms()
    receive, seen = group.receive, list[float]()

    def watched(peer: str, message: Message) -> None:
        receive(peer, message)
        seen.append(off_ms())

    group.receive = watched  # type: ignore[method-assign]
    network.resume("B")
    network.run(0.5)
    assert seen
    assert max(abs(ms - before) for ms in seen) < 1000 * network.nodes["B"].group.options.heartbeat_s


def echoed(peer: Peer, sent_s: float, told_s: float, came_s: float, ahead_ms: int = 0) -> float:
    """An echo of a heartbeat that was sent then, from a peer whose clock is ahead, told and heard later; what is known
    of that clock, ms."""
    said = {
        "applied_index": 0,
        "free_bytes": 0,
        "low": False,
        "retiring": False,
        "leaving": False,
        "busy": False,
        "wall_ms": int(told_s * 1000) + ahead_ms,
    }
    peer.echoed(said, came_s, sent_s, int(came_s * 1000))
    return peer.clock_offset_ms


def test_an_echo_that_waited_while_this_process_stood_still_says_little() -> None:
    """A leader was stopped for 2 s: the echoes in its socket would make each peer's clock a second late. A peer's clock
    that was set is known at once."""
    peer = Peer("b")
    assert abs(echoed(peer, 0.0, 0.001, 0.002, 40) - 40) <= 1
    for turn in range(1, 40):
        assert abs(echoed(peer, turn * BEAT_S, turn * BEAT_S + 0.001, 4.0, 40) - 40) <= 1, turn
    assert abs(echoed(peer, 4.01, 4.02, 4.03, 43) - 43) <= 11
    assert abs(echoed(peer, 4.05, 4.051, 4.052, 43) - 43) <= 1
    assert abs(echoed(peer, 4.06, 4.07, 4.08, 10_000) - 10_000) <= 11


def test_a_clock_that_was_heard_badly_alone_is_known_as_well_as_it_was_heard() -> None:
    """To half the round trip, whatever that is; a better echo is taken at once."""
    peer = Peer("b")
    assert abs(echoed(peer, 0.0, 0.0, 2.0)) <= 1_000
    assert abs(echoed(peer, 2.0, 2.001, 2.002)) <= 1


def test_a_slow_echo_is_taken_where_the_good_one_is_older_than_that() -> None:
    """Two clocks part by 2 ms a second: what was known to 2 ms is known to 122 after 60 s."""
    peer = Peer("b")
    echoed(peer, 0.0, 0.001, 0.002)
    echoed(peer, 40.0, 40.1, 40.2)
    assert peer.last_clock_s == 0.002
    echoed(peer, 60.0, 60.1, 60.2)
    assert peer.last_clock_s == 60.2
    echoed(peer, 300.0, 300.2, 300.4)
    assert peer.last_clock_s == 300.4
    echoed(peer, 601.0, 601.25, 601.5)
    assert peer.last_clock_s == 601.5, "nothing ends that after two minutes: an echo that comes is news"
