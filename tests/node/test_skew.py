"""What the clocks in the echoes say: the median, who agrees with it, and when a leader is outvoted."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from node.clock import NodeClock
from node.skew import Skew
from replication.options import Peer

AWAY = None
"""Of a peer that is down and was not heard in this term."""


def skew(*offsets_ms: float | None) -> tuple[Skew, list[Peer]]:
    """Of a leader whose peers' clocks are ahead of its own by so much."""
    peers = [
        Peer(f"n{row + 2}", connected=offset_ms is not AWAY, clock_offset_ms=offset_ms or 0.0)
        for row, offset_ms in enumerate(offsets_ms)
    ]
    for peer, offset_ms in zip(peers, offsets_ms, strict=True):
        peer.last_echo_s = 11.0 if offset_ms is not AWAY else 9.0
    clock = NodeClock(lambda: 1e9, lambda: 12.0)
    clock.leading = True
    one = Skew(cast(Any, SimpleNamespace(peers={peer.node_id: peer for peer in peers})), clock)
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
        ((-7_200_000, AWAY), 0, False),
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
