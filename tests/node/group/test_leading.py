"""What a node does at the moment its group tells it that it leads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from node.cluster.clock_skew import Skew
from node.group.leading import Leading
from node.handover.term import Leadership
from node.runtime.clock import STEP_MS, NodeClock
from replication.election.median import Median
from replication.raft.options import Peer


class Leader:
    """A node whose clock is ahead of its peers' by `ahead_ms`, as far as its group calls it."""

    def __init__(self, ahead_ms: float) -> None:
        self.now_s = 50.0
        self.true_s = 1_700_000_000.0
        self.peers = {
            name: Peer(name, connected=True, clock_offset_ms=-ahead_ms, clock_error_ms=0, last_clock_s=50.0)
            for name in ("n2", "n3")
        }
        self.clock = NodeClock(lambda: self.true_s + ahead_ms / 1000, lambda: self.now_s)
        self.group = SimpleNamespace(peers=self.peers, is_leader=True, term=1, elected_term=0, median=None)
        life, told = SimpleNamespace(spawn=lambda work: work.close()), SimpleNamespace(leader_changed=lambda: None)
        proposer = SimpleNamespace(step_down=lambda: None)
        parts: Any = SimpleNamespace(
            clock=self.clock, group=self.group, store=None, life=life, proposer=proposer, in_hand=None
        )
        absent, told_anything = cast(Any, None), cast(Any, told)
        skew = Skew(cast(Any, self.group), self.clock)
        self.leadership: Leadership[Any] = Leadership(absent)
        self.leading = Leading(
            parts,
            self.leadership,
            cast(Any, SimpleNamespace(node_id="n1")),
            0,
            skew,
            told_anything,
            absent,
            lambda: None,
        )

    def lead(self, *heard: str) -> float:
        """Elected, echoed by these, established; how far the node clock is ahead of the peers' then, ms."""
        self.leading.leader_changed()
        for name in heard:
            self.peers[name].last_echo_s = self.now_s + 0.001
        self.now_s, self.true_s = self.now_s + 0.002, self.true_s + 0.002
        self.leading.established()
        return self.clock.now_ms() - self.true_s * 1000


@pytest.mark.parametrize("heard", [("n2",), ("n2", "n3")])
def test_a_new_leader_far_ahead_is_held_back_before_it_stamps_or_hands_over(heard: tuple[str, ...]) -> None:
    """Whether one peer or both have echoed: nothing waits for the next look at the clocks, half a second later."""
    assert Leader(600_000).lead(*heard) <= STEP_MS + 1


def test_a_new_leader_within_half_a_second_or_behind_is_not_held_back() -> None:
    """Its clock stays what it is."""
    for ahead_ms in (0.0, 400.0, -600_000.0):
        assert abs(Leader(ahead_ms).lead("n2", "n3") - ahead_ms) < 2


def test_echoes_of_a_former_term_do_not_count() -> None:
    """What a peer's clock said then may be long ago."""
    leader = Leader(600_000)
    leader.peers["n2"].last_echo_s = 49.0
    assert abs(leader.lead() - 600_000) < 2


def test_one_slow_clock_does_not_hold_a_leader_back_where_the_median_was_known() -> None:
    """It takes a majority of the nodes to say that a clock is too far ahead: the one that is down still has a say."""
    leader = Leader(600_000)
    leader.peers["n3"].connected = False
    leader.group.median = Median(leader.clock.own_ms(), leader.now_s)
    assert abs(leader.lead("n2") - 600_000) < 2


def test_of_two_clocks_the_lower_one_counts_where_no_third_was_ever_known() -> None:
    """Nobody can say which is right, and nothing may be early (all nodes were down at once, seeds 891 and 1011)."""
    leader = Leader(600_000)
    leader.peers["n3"].connected = False
    assert leader.lead("n2") <= STEP_MS + 1


def test_a_term_is_over_and_gone_in_the_step_in_which_leadership_is_lost() -> None:
    """Whoever asks for it after that finds none."""
    leader, ended = Leader(0), list[bool]()
    leader.leadership.term = SimpleNamespace(term=1, end=lambda: ended.append(True))
    leader.leading.stepped_down()
    assert ended == [True]
    assert leader.leadership.term is None
    leader.leading.stepped_down()
    assert ended == [True], "a node that ends steps down once more"
