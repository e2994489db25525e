"""What the clocks in the echoes say: the median, who agrees with it, when a leader is outvoted, and drift."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from node.cluster.clock_skew import Skew
from node.runtime.clock import NodeClock
from replication.election.median import Median
from replication.raft.options import Peer

AWAY = None
"""Of a peer that is down and was not heard in this term."""


def skew(*offsets_ms: float | None, median: tuple[float, ...] | None = None) -> tuple[Skew, list[Peer]]:
    """Of a leader whose peers' clocks are ahead of its own by so much; `median` is what a former leader told."""
    peers = [
        Peer(f"n{row + 2}", connected=offset_ms is not AWAY, clock_offset_ms=offset_ms or 0.0)
        for row, offset_ms in enumerate(offsets_ms)
    ]
    for peer, offset_ms in zip(peers, offsets_ms, strict=True):
        peer.last_echo_s = 11.0 if offset_ms is not AWAY else 9.0
        peer.last_clock_s = 12.0
    clock = NodeClock(lambda: 1e9, lambda: 12.0)
    clock.leading = True
    told = None if median is None else Median(*median)
    one = Skew(cast(Any, SimpleNamespace(peers={peer.node_id: peer for peer in peers}, median=told)), clock)
    one.led_since_s = 10.0
    return one, peers


@pytest.mark.parametrize(
    ("offsets_ms", "median_ms", "outvoted"),
    [
        ((0, 0), 0, False),
        ((400, 450), 400, False),
        ((10_000, 10_100), 10_000, True),
        ((-10_000, -10_100), -10_000, True),
        ((10_000, 0), 0, False),
        ((10_000, -10_000), 0, False),  # three opinions: nobody is outvoted
        ((5_000, 10_000), 5_000, False),
        ((-7_200_000, AWAY), -7_200_000, False),  # nor with a third that was never heard: the lower clock counts
        ((7_200_000, AWAY), 0, False),
        ((-7_200_000,), -7_200_000, False),  # of two nobody can say who is wrong
        ((10_000, 10_000, 10_000, AWAY), 10_000, True),
        ((10_000, 10_000, 0, 0), 0, False),
        ((), 0, False),
    ],
)
def test_a_leader_is_outvoted_by_a_majority_that_agrees(
    offsets_ms: tuple[float | None, ...], median_ms: float, outvoted: bool
) -> None:
    """More than half of all nodes within half a second of the median, and this one not; the down ones say nothing."""
    one, _ = skew(*offsets_ms)
    assert one.median_ms() == median_ms
    assert one.outvoted() is outvoted


def test_two_fast_clocks_of_five_that_are_heard_first_are_no_majority() -> None:
    """Seed 42009: after all nodes had lost power a leader 600 ms ahead had heard one clock like its own and one right
    one, and handed over early until the other two were heard. A fourth is enough."""
    one, (_, _, third, fourth) = skew(10, -606, 0, 0)
    third.last_echo_s = fourth.last_echo_s = 9.0
    assert one.median_ms() == -606
    third.last_echo_s, third.clock_offset_ms = 11.0, -600
    assert one.median_ms() == -600
    fourth.last_echo_s, fourth.clock_offset_ms = 11.0, -590
    assert one.median_ms() == -590


def test_a_leaders_stamps_keep_to_the_lowest_that_slow_echoes_allow() -> None:
    """Seed 42009: the first echo of one had been 220 ms on its way, and its clock seemed 110 ms farther ahead."""
    one, (first, second) = skew(-750, -860)
    first.clock_error_ms, second.clock_error_ms = 112, 3
    assert one.median_ms() == -750
    assert one.least_median_ms() == -862


@pytest.mark.parametrize(("offsets_ms", "median_ms"), [((-3_600_000, 0), 0), ((-3_600_000, 5, 0, 0), 1)])
def test_who_is_cut_off_and_still_connected_stands_where_the_median_was(
    offsets_ms: tuple[float, ...], median_ms: float
) -> None:
    """One clock is an hour slow, the leader before and perhaps another node are cut off: the new leader was held back
    by an hour until they were known to be gone, and strict leases that it gave had ended as they began."""
    one, peers = skew(*offsets_ms, median=(1_000_000_000_001, 12.0))
    for cut in peers[len(peers) // 2 :]:
        cut.last_echo_s = 9.0
    assert one.median_ms() == median_ms


def test_what_an_old_echo_said_is_worth_less_each_second() -> None:
    """Slow echoes do not take its place, and crystals go on to differ."""
    one, (first, second) = skew(-400, -400)
    first.clock_error_ms = second.clock_error_ms = 1
    first.last_clock_s = second.last_clock_s = 12.0 - 55
    assert one.least_median_ms() == -511


def test_what_the_leader_before_told_is_worth_less_each_second() -> None:
    """Seed 49132: one peer was cut off as the term began, and the median told long before it stood for that clock."""
    one, (_, away) = skew(-640, 0, median=(999_999_999_386 - 8_000, 4.0))
    away.last_echo_s = 9.0
    assert one.median_ms() == -614
    assert one.least_median_ms() == -630


def test_12185_what_the_leader_before_told_may_have_been_a_guess() -> None:
    """Seed 12185: its way to one node took 130 ms and back none, so that clock, the median, seemed 65 ms later. The
    next leader, which heard that node alone, was 545 ms ahead of it and held itself for 480 ms ahead."""
    one, (_, away) = skew(-545, 0, median=(1_000_000_000_000 - 480, 12.0, 65))
    away.last_echo_s = 9.0
    assert one.median_ms() == -480
    assert one.least_median_ms() == -545


def test_12185_a_leader_tells_how_far_the_median_may_be_from_what_it_found() -> None:
    """And remembers it, for a term in which it hears fewer."""
    one, peers = skew(-480, -470)
    for peer in peers:
        peer.clock_error_ms = 65.2
    assert one.told_ms() == (470, 66)
    peers[1].last_echo_s, peers[0].clock_error_ms = 9.0, 0
    assert one.least_median_ms() == -480
    peers[0].clock_offset_ms = -540
    assert one.least_median_ms() == pytest.approx(-535.2)


def test_what_is_told_from_leader_to_leader_does_not_add_up() -> None:
    """Two of five are right and lead in turn, one is an hour slow, two are away: each term held them back by another
    0.24 s, for what it was told had aged already, and aged again."""
    clock_s, told = [1_000.0], Median(1e9 * 1000, 1_000.0, 1)
    for _ in range(12):
        one, (right, slow, *away) = skew(0, -3_600_000, AWAY, AWAY, median=told)
        one._clock._monotonic = lambda: clock_s[0]
        one._clock._offset_s = 1e9 - 1_000.0
        for peer in away:
            peer.last_echo_s = 0.0
        one.led_since_s = clock_s[0]
        clock_s[0] += 120
        for peer in (right, slow):
            peer.last_echo_s = peer.last_clock_s = clock_s[0]
            peer.clock_error_ms = 2
        assert -245 <= one.least_median_ms() <= -240
        ahead_ms, slack_ms = one.told_ms()
        told = Median(one._clock.own_ms() - ahead_ms, clock_s[0], slack_ms)
        assert slack_ms <= 2


@pytest.mark.parametrize("heard", [True, False])
def test_who_is_away_for_a_day_holds_no_right_clock_back(heard: bool) -> None:
    """One of three is down, before this term or since; another clock is an hour slow. Two of three are right: stamps
    fell behind by 2 ms a second, and leases ended in one step when the third was heard again."""
    one, (_, away) = skew(-3_600_000, 0, median=(1_000_000_000_000 - 86_400_000, 12.0 - 86_400))
    away.connected, away.clock_error_ms = False, 5
    away.last_echo_s, away.last_clock_s = (11.0 if heard else 9.0), 12.0 - 86_400
    assert one.least_median_ms() == (-245 if heard else -240)


def test_a_right_clock_is_held_back_by_no_more_than_the_lowest_that_is_heard() -> None:
    """Others are away for a day, and a learner too: that one's clock counts for nothing."""
    one, (low, away, learner) = skew(-100, 0, 0, median=(1_000_000_000_000 - 86_400_000, 12.0 - 86_400))
    learner.learner, low.clock_error_ms = True, 0
    for each in (away, learner):
        each.connected, each.last_echo_s = False, 9.0
    assert one.least_median_ms() == -100
    assert not one.outvoted()
    learner.last_echo_s, learner.clock_offset_ms = 11.0, -9_000.0
    assert (one.median_ms(), one.least_median_ms()) == (0, -100)


def test_a_learner_decides_nothing_about_clocks() -> None:
    """Heard or not, right or wrong: it makes nobody right, nobody outvoted and no majority."""
    one, (*_, learner) = skew(-100, 50, 100, -9_000)
    learner.learner = True
    assert one.some_right_ms() == 0

    one, (_, _, learner) = skew(20, -20, AWAY)
    learner.learner = True
    assert one.median_ms() == 0
    assert one.known is not None, "all whose clocks count were heard"

    one, (_, learner) = skew(-9_000, -9_000)
    learner.learner = True
    assert not one.outvoted()
    one, (_, _, *learners) = skew(-9_000, -9_000, 0, AWAY)
    for learner in learners:
        learner.learner = True
    assert one.outvoted()

    one, (off, _, learner) = skew(7_200_000, AWAY, 0)
    learner.learner = True
    assert not one.outvotes(off)

    one, (_, learner) = skew(-9_000, AWAY, median=(1_000_000_000_000 - 9_000, 12.0))
    learner.learner = True
    assert not one.outvoted()


def test_a_single_voter_has_nobody_to_compare_its_clock_with() -> None:
    """Its learner has a clock, and that counts for nothing."""
    one, (learner,) = skew(-9_000)
    assert one.ahead_ms() is not None
    learner.learner = True
    assert (one.ahead_ms(), one.least_median_ms(), one.outvoted()) == (None, 0, False)


def test_the_median_known_last_is_the_newest_and_not_the_latest() -> None:
    """A leader before had a clock that was an hour ahead."""
    one, (_, away) = skew(0, 0, median=(1_000_003_600_000, 3.0))
    one._found = Median(1_000_000_000_000, 12.0)
    away.last_echo_s = 9.0
    assert one.known is one._found
    assert one.median_ms() == 0


def test_a_peer_that_would_be_outvoted_is_known() -> None:
    """Its clock is off, and the others' and ours are not; one that was not heard is no majority's business."""
    one, (off, _) = skew(7_200_000, 100)
    assert one.outvotes(off)
    one, (_, near) = skew(7_200_000, 100)
    assert not one.outvotes(near)
    one, (lonely, _) = skew(7_200_000, AWAY)
    assert not one.outvotes(lonely)
    assert not one.agrees(lonely)


def test_clocks_heard_in_an_earlier_term_say_nothing() -> None:
    """Nor do they where this node does not lead."""
    one, peers = skew(10_000, 10_000)
    one.led_since_s = 11.5
    assert one.median_ms() == 0
    assert not one.outvoted()
    assert not any(map(one.agrees, peers))
    one.led_since_s = 10.0
    one._clock.leading = False
    assert one.median_ms() == 0


@pytest.mark.parametrize("jump_s", [60, -60])
def test_with_one_down_a_leader_remembers_where_the_median_was(jump_s: int) -> None:
    """Its wall clock jumped before it was elected: it was told the median 7 s ago, and the one peer that is up agrees
    with that. It stamps by the median and yields. Where the peer is the one that jumped, it does not."""
    told = (int((1e9 - 7 - jump_s) * 1000), 5.0)
    one, _ = skew(-jump_s * 1000, AWAY, median=told)
    assert abs(one.median_ms() + jump_s * 1000) < 1
    assert one.outvoted()
    one, _ = skew(jump_s * 1000, AWAY, median=(int((1e9 - 7) * 1000), 5.0))
    assert abs(one.median_ms()) < 1
    assert not one.outvoted()
    one, (jumped, _) = skew(jump_s * 1000, AWAY, median=(int((1e9 - 7) * 1000), 5.0))
    assert one.outvotes(jumped)


def test_a_leader_remembers_the_median_it_found_itself() -> None:
    """All were heard; then one is down, and the clock of the other jumps: nothing changes."""
    one, peers = skew(20, -20)
    assert one.median_ms() == 0
    peers[1].connected, peers[1].last_echo_s, peers[0].clock_offset_ms = False, 0.0, -60_000
    assert abs(one.median_ms()) < 1
    assert not one.outvoted()


class Drifting:
    """Three clocks on one monotonic time, in seconds; one wall clock runs too fast or too slow. `odd_leads`: it is the
    leader's."""

    def __init__(self, ppm: float, *, odd_leads: bool) -> None:
        self.now_s = 0.0
        self._ppm = ppm
        off, true = NodeClock(self._off, self._time), [NodeClock(self._true, self._time) for _ in range(2)]
        self.clocks = [off, *true] if odd_leads else [true[0], off, true[1]]
        self.clocks[0].leading = True
        self.peers = [Peer(f"n{row + 2}", connected=True) for row in range(2)]
        group = SimpleNamespace(peers={peer.node_id: peer for peer in self.peers}, median=None)
        self.skew = Skew(cast(Any, group), self.clocks[0])

    def _time(self) -> float:
        return self.now_s

    def _true(self) -> float:
        return 1e9 + self.now_s

    def _off(self) -> float:
        return 1e9 + self.now_s * (1 + self._ppm / 1e6)

    def pass_s(self) -> None:
        """A second passes: clocks are slewed, echoes heard, the leader held to the median."""
        self.now_s += 1
        for clock in self.clocks:
            clock.slew()
        for peer, clock in zip(self.peers, self.clocks[1:], strict=True):
            peer.clock_offset_ms, peer.last_echo_s = clock.own_ms() - self.clocks[0].own_ms(), self.now_s
        self.clocks[0].bound(self.skew.median_ms())


@pytest.mark.parametrize("ppm", [300.0, -300.0])
def test_a_leader_that_drifts_is_outvoted_when_it_is_past_the_bound(ppm: float) -> None:
    """Not before: 300 ppm are 500 ms after 1667 s. What it stamps is never more than 500 ms past the true time, and
    never steps by more than the slew."""
    drifting = Drifting(ppm, odd_leads=True)
    last_ms = drifting.clocks[0].now_ms()
    for _ in range(1660):
        drifting.pass_s()
        assert not drifting.skew.outvoted()
        now_ms = drifting.clocks[0].now_ms()
        assert abs(now_ms - last_ms - 1000) <= 2
        assert now_ms <= int((1e9 + drifting.now_s) * 1000) + 501
        last_ms = now_ms
    for _ in range(20):
        drifting.pass_s()
    assert drifting.skew.outvoted()
    ahead_ms = drifting.skew.ahead_ms()
    assert ahead_ms is not None
    assert abs(ahead_ms - ppm * drifting.now_s / 1000) < 5


@pytest.mark.parametrize("ppm", [300.0, -300.0])
def test_a_follower_that_drifts_outvotes_nobody(ppm: float) -> None:
    """However far: the leader agrees with the other one."""
    drifting = Drifting(ppm, odd_leads=False)
    for _ in range(2000):
        drifting.pass_s()
    assert not drifting.skew.outvoted()
    assert drifting.skew.outvotes(drifting.peers[0])
    assert not drifting.skew.outvotes(drifting.peers[1])
    assert drifting.skew.ahead_ms() == 0


@pytest.mark.parametrize(
    ("offsets_ms", "right_ms"),
    [
        ((0, 450), 0),
        ((450, AWAY), 450),  # of two that were heard one may be wrong, whichever
        ((10_000, AWAY), 10_000),
        ((10_000, 10_100), 10_000),
        ((-10_000, -10_100), -10_000),
        ((3_600_000, -200), 0),
        ((3_600_000, 3_600_000, 300, 200), 300),
        ((3_600_000, 300, AWAY, AWAY), 3_600_000),
        ((), 0),
    ],
)
def test_some_right_clock_has_not_passed_a_moment(offsets_ms: tuple[float | None, ...], right_ms: float) -> None:
    """A majority of all clocks is right, so of those heard at most a minority is wrong; FOUND D1 and D3 rest on it."""
    one, _ = skew(*offsets_ms)
    assert one.some_right_ms() == right_ms
