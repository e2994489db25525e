"""Times of `[raft]` changed one restart after the other: nodes that owe different silences, and at most one leader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.replication.sim_network import SimNetwork

SLOW: dict[str, Any] = {
    "heartbeat_s": 0.2,
    "trust_s": 1.0,
    "fallback_s": 1.5,
    "election_min_s": 2.0,
    "election_max_s": 4.0,
}


def _two_at_once(network: SimNetwork, seconds: float) -> list[str]:
    """Runs so long; who trusted themselves together at any moment, else nobody."""
    found: list[str] = []

    def look() -> bool:
        found[:] = [node.id for node in network.nodes.values() if node.group.trusted(network.now)]
        return len(found) > 1

    return found if network.run(seconds, look) else []


def _lead(network: SimNetwork, node_id: str) -> None:
    """Moves leadership to this node."""
    leader = network.elect()
    if leader.id != node_id:
        leader.group.transfer(node_id, lambda _: None)
    assert network.run(10, lambda: network.nodes[node_id].group.trusted(network.now))


def test_a_leader_with_longer_times_than_its_voters_is_never_one_of_two(tmp_path: Path) -> None:
    """A is restarted alone with a trust of 1 s; B and C elect after 0.4 s of silence. A is moved to and cut off."""
    network = SimNetwork(tmp_path)
    network.elect("B")
    network.own_options["A"] = SLOW
    network.restart("A")
    network.run(3)
    _lead(network, "A")
    network.run(1)
    network.isolate("A")
    assert _two_at_once(network, 5) == []


@pytest.mark.parametrize("delay_s", [0.001, 0.1, 0.25, 0.5])
def test_a_voter_restarted_with_shorter_times_keeps_what_it_owed(tmp_path: Path, delay_s: float) -> None:
    """All have long times. C misses the leader for a while, B is restarted with short ones and asked for its vote:
    the trust that B's last echo gave A still runs."""
    network = SimNetwork(tmp_path, **SLOW)
    _lead(network, "A")
    network.run(1)
    network.isolate("C")
    network.own_options["C"] = network.own_options["B"] = {"trust_s": 0.25, "heartbeat_s": 0.05} | {
        "fallback_s": 0.35,
        "election_min_s": 0.4,
        "election_max_s": 0.5,
    }
    network.restart("C")
    network.run(3)
    network.run(delay_s)
    network.cut.clear()
    network.isolate("A")
    network.restart("B")
    assert _two_at_once(network, 8) == []


def test_voters_of_an_older_build_are_taken_to_owe_its_default(tmp_path: Path) -> None:
    """Their echoes do not say. A leader with long times counts on no more than 0.4 s from each, or on its own times."""
    network = SimNetwork(tmp_path)
    network.protocol = 1
    network.elect("B")
    network.own_options["A"] = SLOW
    network.restart("A")
    network.run(3)
    _lead(network, "A")
    network.run(1)
    assert network.nodes["A"].group.trusted_until <= network.now + 0.2
    network.isolate("A")
    assert _two_at_once(network, 5) == []


def test_a_leader_with_longer_times_keeps_pace_with_its_voters(tmp_path: Path) -> None:
    """Its own heartbeats would come as seldom as trust in it ends: it sends them as often as the shortest silence asks
    for, and is sure to lead all the time."""
    network = SimNetwork(tmp_path)
    network.elect("B")
    network.own_options["A"] = SLOW
    network.restart("A")
    network.run(3)
    _lead(network, "A")
    assert not network.run(3, lambda: not network.nodes["A"].group.trusted(network.now))


def _late(network: SimNetwork, leader: str, times: int, pause_s: float) -> None:
    """The leader's process stands still so often, and goes on."""
    for _ in range(times):
        network.pause(leader)
        network.run(pause_s)
        network.resume(leader)
        network.run(0.5)


def test_who_is_late_again_and_again_is_waited_for(tmp_path: Path) -> None:
    """Pauses of 0.2 s: after three of them voters owe more, trust lasts longer, and further ones end it no more. The
    silence is on disk before it is told. In calm all of it goes back."""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.run(1)
    _late(network, "A", 3, 0.2)
    owed_s = network.nodes["B"].group.silence.promise_s
    assert owed_s > 0.6
    assert network.silence_s["B"] >= owed_s
    unsure_s = leader.group.untrusted_s
    _late(network, "A", 5, 0.3)
    assert leader.group.untrusted_s == unsure_s
    assert leader.group.is_leader
    network.run(200)
    assert network.nodes["B"].group.silence.promise_s == network.silence_s["B"] == 0.4


def test_a_single_pause_changes_nothing(tmp_path: Path) -> None:
    """A process that is stopped for long and goes on says nothing about the next seconds."""
    network = SimNetwork(tmp_path)
    network.elect("A")
    network.run(1)
    _late(network, "A", 1, 0.3)
    network.run(1)
    assert {node.group.silence.promise_s for node in network.nodes.values()} == {0.4}


def test_failover_after_lateness_never_has_two_leaders(tmp_path: Path) -> None:
    """The leader is cut off, and a voter restarted, while trust in it is at its longest."""
    network = SimNetwork(tmp_path)
    network.elect("A")
    _late(network, "A", 6, 0.3)
    network.run(0.2)
    network.isolate("A")
    network.restart("B")
    network.restart("C")
    assert _two_at_once(network, 6) == []
    assert network.leader().id != "A"
