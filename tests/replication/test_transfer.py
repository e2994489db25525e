"""Leadership given away on purpose, in the simulated network: what is lost, doubled, delayed or dies on the way."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from replication.raft.proposal import NOT_LEADER, Outcome
from replication.wire.frame import Message
from tests.replication.sim_network import SimNetwork
from tests.replication.sim_node import SimNode


def led(directory: Path, ids: str = "ABC", **options: Any) -> tuple[SimNetwork, SimNode, SimNode]:
    """A network with some entries, its leader, and a follower."""
    network = SimNetwork(directory, ids, **options)
    leader = network.elect()
    network.fill(leader, 5)
    network.run(0.5)
    return network, leader, network.others(leader)[0]


def transfer(leader: SimNode, to: str) -> list[bool]:
    """Begin a transfer; what it tells."""
    told: list[bool] = []
    leader.group.transfer(to, told.append)
    return told


def test_the_target_leads_within_a_few_round_trips(tmp_path: Path) -> None:
    """The term after, the node asked for, nothing lost; no election timeout passes, and nobody asks for pre-votes."""
    network, leader, target = led(tmp_path)
    term, begun = leader.group.term, network.now
    network.watch = lambda source, target, message: message["type"] in ("pre_vote", "timeout_now")
    told = transfer(leader, target.id)
    assert network.run(1, lambda: target.group.trusted(network.now))
    assert network.now - begun < 0.03
    assert told == [True]
    assert target.group.term == term + 1
    assert [message["type"] for _now, _source, _target, message in network.seen] == ["timeout_now"]
    network.fill(target, 3, "after")
    assert network.run(1, network.equal)
    assert leader.group.leader_id == target.id


def test_back_and_forth_many_times(tmp_path: Path) -> None:
    """Each of 30 transfers, with proposals up to the last moment, loses and doubles nothing and takes one term."""
    network, leader, _ = led(tmp_path, "ABCDE")
    term = leader.group.term
    outcomes: list[tuple[str, Outcome]] = []
    for number in range(30):
        target = network.others(leader)[number % 4]
        for part in range(3):
            network.propose(leader, f"{number}.{part}", outcomes)
        told = transfer(leader, target.id)
        network.propose(leader, f"{number}.refused", outcomes)
        assert network.run(1, lambda target=target: target.group.trusted(network.now))  # type: ignore[misc]
        assert told == [True]
        leader = target
    assert leader.group.term == term + 30
    assert network.run(1, network.equal)
    texts = Counter(leader.texts())
    for text, outcome in outcomes:
        assert outcome.error == (NOT_LEADER if text.endswith("refused") else None)
        assert texts[text] == (outcome.error is None)


def test_the_old_leader_is_through_with_its_term_before_the_message_leaves(tmp_path: Path) -> None:
    """At the moment TimeoutNow enters the link its sender neither leads, nor is trusted, nor proposes."""
    network, leader, target = led(tmp_path)
    at_sending: list[tuple[bool, bool]] = []

    def watch(source: str, target: str, message: dict[str, object]) -> bool:
        if message["type"] == "timeout_now":
            at_sending.append((leader.group.is_leader, leader.group.trusted(network.now)))
        return False

    network.watch = watch
    transfer(leader, target.id)
    assert network.run(1, lambda: bool(at_sending))
    assert at_sending == [(False, False)]
    outcomes: list[tuple[str, Outcome]] = []
    network.propose(leader, "late", outcomes)
    assert outcomes[0][1].error == NOT_LEADER


def test_a_target_behind_holds_the_transfer_until_it_has_applied_everything(tmp_path: Path) -> None:
    """TimeoutNow does not leave before the last entry is on the target's disk and applied there."""
    network, leader, target = led(tmp_path)
    network.sync_s[target.id] = 0.3
    network.fill(leader, 20, "late")
    told = transfer(leader, target.id)
    network.run(0.2)
    assert told == []
    assert leader.group.is_leader
    seen: list[tuple[list[str], int]] = []

    def watch(source: str, to: str, message: dict[str, object]) -> bool:
        if message["type"] == "timeout_now":
            seen.append((target.texts(), target.journal.durable_index))
        return False

    network.watch = watch
    assert network.run(1, lambda: bool(seen))
    assert seen == [(leader.texts(), leader.group.last_index)]
    assert network.run(2, lambda: target.group.established)


@pytest.mark.parametrize("fault", ["slow disk", "dead", "cut off"])
def test_a_target_that_does_not_get_there_changes_nothing(tmp_path: Path, fault: str) -> None:
    """After `transfer_s` it is called off: the same leader, the same term, and proposals go on."""
    network, leader, target = led(tmp_path)
    term = leader.group.term
    if fault == "slow disk":
        network.sync_s[target.id] = 5.0
    else:
        network.isolate(target.id)
    network.fill(leader, 3, "late")
    begun = network.now
    told = transfer(leader, target.id)
    network.run(0.05)
    if fault == "dead":
        network.kill(target.id)
    assert network.run(3, lambda: bool(told))
    assert told == [False]
    assert network.now - begun == pytest.approx(1.0, abs=0.02)
    assert (leader.group.is_leader, leader.group.term) == (True, term)
    assert leader.group.trusted(network.now)
    network.fill(leader, 3, "on")


def test_a_target_that_dies_half_way_costs_one_election(tmp_path: Path) -> None:
    """Killed with TimeoutNow on its way: the two that are left elect one of themselves, with everything."""
    network, leader, target = led(tmp_path)
    texts = leader.texts()
    told = transfer(leader, target.id)
    assert network.run(1, lambda: bool(told))
    assert told == [True]
    begun = network.now
    network.kill(target.id)
    assert network.elect().texts() == texts
    assert network.now - begun < 1.3


def test_a_target_that_dies_as_candidate_costs_one_election(tmp_path: Path) -> None:
    """Killed after it asked for votes, which it may have got: the others lead in a later term and lose nothing."""
    network, leader, target = led(tmp_path)
    texts, term = leader.texts(), leader.group.term
    transfer(leader, target.id)
    assert network.run(1, lambda: target.group.term == term + 1)
    network.run(0.002)
    network.kill(target.id)
    successor = network.elect()
    assert successor.group.term > term + 1
    assert successor.texts() == texts


@pytest.mark.parametrize("whom", ["target", "leader"])
@pytest.mark.parametrize("after_ms", [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20])
def test_a_crash_at_any_step_loses_nothing(tmp_path: Path, whom: str, after_ms: int) -> None:
    """Target or leader dies so long after the transfer began, which takes 12 ms here: there is a leader again after an
    election at most, it has everything that was acknowledged, and at no moment do two trust themselves."""
    network, leader, target = led(tmp_path)
    outcomes = network.fill(leader, 3, "acknowledged")
    network.propose(leader, "last", outcomes)

    def watch() -> None:
        assert sum(node.group.trusted(network.now) for node in network.nodes.values()) <= 1
        network.after(0.001, watch)

    network.after(0, watch)
    told = transfer(leader, target.id)
    network.run(after_ms / 1000)
    network.kill(target.id if whom == "target" else leader.id)
    begun = network.now
    if whom == "target":
        assert network.run(1.01, lambda: bool(told)), "called off, or given away"
    assert network.run(3, lambda: any(node.group.trusted(network.now) for node in network.nodes.values()))
    assert network.now - begun < 1.5
    successor = network.leader()
    network.fill(successor, 2, "after")
    texts = Counter(successor.texts())
    assert set(texts.values()) == {1}
    assert [text for text, outcome in outcomes if outcome.error is None and not texts[text]] == []


@pytest.mark.parametrize(
    "lost", ["echo", "heartbeat", "timeout_now", "request_vote", "response_vote", "append_entries", "next_node_idx"]
)
def test_a_lost_message_costs_an_election_at_most(tmp_path: Path, lost: str) -> None:
    """All messages of one kind that concern the target are lost for 30 ms: somebody leads 1.5 s later, has everything,
    and the caller was told the truth: given away, or leading on."""
    network, leader, target = led(tmp_path, resend_s=0.3)
    term, texts = leader.group.term, leader.texts()
    wanted, until = target.id, network.now + 0.03
    real = network.send

    def losing(source: str, target: str, message: Message) -> bool:
        concerned = wanted in (source, target) and message["type"] == lost and network.now < until
        return True if concerned else real(source, target, message)

    network.send = losing  # type: ignore[method-assign]
    told = transfer(leader, target.id)
    assert network.run(2, lambda: bool(told))
    assert network.run(1.5, lambda: any(node.group.trusted(network.now) for node in network.nodes.values()))
    assert told == [True]
    successor = network.leader()
    assert successor.group.term > term
    assert successor.texts()[: len(texts)] == texts
    network.fill(successor, 2, "after")


def test_who_shall_not_lead_does_not_stand_but_takes_what_is_given(tmp_path: Path) -> None:
    """A node that is drained waits for others to stand; it votes; and given leadership on purpose it leads,
    which is better than nobody."""
    network, leader, target = led(tmp_path)
    network.says[target.id] = {"retiring"}
    for _ in range(3):
        leader.group.resign()
        leader = network.elect()
        assert leader is not target
    other = next(node for node in network.others(leader) if node is not target)
    network.kill(other.id)
    leader.group.resign()
    assert network.elect() is leader, "with the vote of the drained one"
    assert leader.group.peers[target.id].retiring
    transfer(leader, target.id)
    assert network.run(1, lambda: target.group.trusted(network.now))
    network.kill(leader.id)
    network.run(3)
    assert network.leaders() == []


def test_who_leaves_may_go_as_long_as_a_majority_stays(tmp_path: Path) -> None:
    """One of three is let go within two heartbeats; a second one, and the third, wait until the leader says that
    nothing needs a majority any more. A new leader asks itself anew."""
    network, leader, first = led(tmp_path)
    second = network.others(leader)[1]
    assert not first.group.released
    network.says[first.id] = {"leaving"}
    assert network.run(0.15, lambda: first.group.released)
    assert not leader.group.outnumbered
    network.says[second.id] = {"leaving", "busy"}
    network.run(0.15)
    assert leader.group.outnumbered
    assert not second.group.released
    assert not first.group.released, "it is needed again"
    assert leader.group.peers[second.id].busy
    leader.group.let_go()
    assert network.run(0.01, lambda: first.group.released and second.group.released)
    transfer(leader, first.id)
    assert network.run(1, lambda: first.group.established)
    assert first.group.outnumbered
    network.run(0.1)
    assert not second.group.released
    network.says[second.id] = set()
    network.run(0.15)
    assert not first.group.outnumbered
    network.says[first.id] = set()
    network.says[leader.id] = {"leaving"}
    assert network.run(0.15, lambda: leader.group.released)


def test_only_one_at_a_time(tmp_path: Path) -> None:
    """A second transfer is refused and does not disturb the first; so is one asked of a follower, or to nobody."""
    network, leader, target = led(tmp_path)
    other = network.others(leader)[1]
    first, second = transfer(leader, target.id), transfer(leader, other.id)
    assert (first, second) == ([], [False])
    assert transfer(other, target.id) == [False]
    assert network.run(1, lambda: target.group.established)
    assert first == [True]
    assert transfer(target, "nobody") == [False]


def test_timeout_now_of_another_term_is_void(tmp_path: Path) -> None:
    """Held back until another leader rules, it starts nothing: term and leader stay."""
    network, leader, target = led(tmp_path)
    told: list[bool] = []

    def watch(source: str, to: str, message: dict[str, object]) -> bool:
        if message["type"] == "timeout_now":
            network.hold(source, to)
        return False

    network.watch = watch
    leader.group.transfer(target.id, told.append)
    assert network.run(1, lambda: bool(told))
    assert told == [True]
    network.mute = {target.id}
    successor = network.elect(network.others(leader)[1].id)
    term = successor.group.term
    network.run(0.5)
    network.release(leader.id, target.id)
    network.run(2)
    assert [node.group.term for node in network.nodes.values()] == [term] * 3
    assert network.leaders() == [successor.id]


def test_timeout_now_counts_from_the_leader_alone(tmp_path: Path) -> None:
    """From a node that does not lead the term, or to a node that has no vote, it starts nothing."""
    network, leader, target = led(tmp_path)
    other = network.others(leader)[1]
    term = leader.group.term
    target.group.receive(other.id, {"type": "timeout_now", "term": term})
    leader.group.receive(other.id, {"type": "timeout_now", "term": term})
    target.group.receive(leader.id, {"type": "timeout_now", "term": term + 1})
    target.group.receive(leader.id, {"type": "timeout_now", "term": term - 1})
    target.journal.set_voter(False)
    target.group.receive(leader.id, {"type": "timeout_now", "term": term})
    network.run(0.1)
    assert [node.group.term for node in network.nodes.values()] == [term] * 3
    network.wipe(target.id)
    assert transfer(leader, target.id) == [False], "a node that may have forgotten its vote cannot be elected"


def test_the_old_leader_votes_when_the_third_node_is_away(tmp_path: Path) -> None:
    """Of two nodes that are up both have to vote for the target, and the one that led a moment ago does at once."""
    network, leader, target = led(tmp_path)
    network.kill(network.others(leader)[1].id)
    begun = network.now
    transfer(leader, target.id)
    assert network.run(1, lambda: target.group.trusted(network.now))
    assert network.now - begun < 0.05
    network.fill(target, 3, "after")


def test_a_deposed_leader_knows_its_outcomes_soon(tmp_path: Path) -> None:
    """What a cut-off leader proposed is refused as soon as it applies its successor's first entry: no deadline."""
    network, leader, _ = led(tmp_path)
    network.isolate(leader.id)
    outcomes: list[tuple[str, Outcome]] = []
    for number in range(4):
        network.propose(leader, f"lost{number}", outcomes)
    assert network.run(3, lambda: any(node.group.established for node in network.others(leader)))
    assert not outcomes
    network.heal()
    begun = network.now
    assert network.answered(outcomes, 4)
    assert network.now - begun < 0.2
    assert {outcome.error for _text, outcome in outcomes} == {NOT_LEADER}
    network.run(1)
    assert not [text for text in network.leader().texts() if text.startswith("lost")]


@pytest.mark.parametrize("seed", range(12))
def test_transfers_under_loss_and_delay(tmp_path: Path, seed: int) -> None:
    """20 transfers while messages are lost and late: never two trusted, nothing acknowledged is lost, nothing refused
    comes in, and each is told what became of it."""
    network = SimNetwork(tmp_path, "ABC" if seed % 2 else "ABCDE", seed=seed, resend_s=0.3)
    draw = network.random
    network.elect()
    network.loss, network.delay_s = 0.05, lambda: draw.choice([0.001, 0.001, 0.005, 0.05])
    told: list[bool] = []
    outcomes: list[tuple[str, Outcome]] = []

    def watch() -> None:
        trusted = [node.id for node in network.nodes.values() if node.group.trusted(network.now)]
        assert len(trusted) <= 1, trusted
        network.after(0.002, watch)

    network.after(0, watch)
    for number in range(20):
        assert network.run(20, lambda: any(node.group.established for node in network.nodes.values()))
        leader = network.leader()
        network.propose(leader, f"n{number}", outcomes)
        leader.group.transfer(draw.choice(network.others(leader)).id, told.append)
        network.propose(leader, f"n{number}.late", outcomes)
        network.run(draw.choice([0.05, 0.3, 1.5]))
    network.loss, network.delay_s = 0.0, lambda: 0.001
    assert network.answered(outcomes, 40, 30)
    assert network.run(5, lambda: len(told) == 20), told
    assert network.run(30, lambda: network.equal() and any(node.group.established for node in network.nodes.values()))
    assert any(told)
    texts = Counter(network.leader().texts())
    for text, outcome in outcomes:
        if outcome.error is None:
            assert texts[text] == 1, text
        elif outcome.error == NOT_LEADER:
            assert texts[text] == 0, text
