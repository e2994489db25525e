"""Members come and go while everything fails: what raft/members.py claims, tried at random and by the script.

The random trial is test_model.py's (crashes as of power cuts, pauses, cuts, delays, repeated messages, transfers, slow
disks), with changes of the members on top, sensible or not: nobody waits for a learner to catch up, or looks whether
the others are up. Removed nodes run on, and know it or not. The scripts show that each rule is needed: without it the
cluster commits two things in one place.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from replication.group import RaftGroup
from replication.raft.proposal import CHANGING, Outcome
from replication.raft.votes import Votes
from tests.examples import replay, seeds
from tests.replication.raft.test_model import Trial
from tests.replication.sim_network import SimNetwork
from tests.replication.sim_node import SimNode

MEMBERS_MAX = 7
NEWCOMERS = "DEFGHIJKLM"


class MemberTrial(Trial):
    """A random run in which leaders change the members."""

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory, seed)
        self.newcomers = [node_id for node_id in NEWCOMERS if node_id not in self.network.ids]
        self.changes = 0

    def run(self) -> None:
        """The founders know each other before anything goes wrong."""
        assert self.network.run(5.0, lambda: all(node.journal.voter for node in self.network.nodes.values()))
        super().run()

    def fault(self) -> None:
        """Half as often as in the other trial, so that changes come about."""
        if self.draw.random() < 0.5:
            super().fault()

    def load(self) -> None:
        """As the other trial, and now and then a change."""
        super().load()
        for node_id in self.network.leaders():
            if self.draw.random() < 0.3:
                self.change(self.network.nodes[node_id])

    def change(self, leader: SimNode) -> None:
        """A change, in any order: the members as they are when it is applied decide what comes of it."""
        members = [*leader.voters, *leader.learners]
        kind = self.draw.random()
        if kind < 0.35 and self.newcomers and len(members) < MEMBERS_MAX:
            newcomer = self.newcomers.pop(0)
            self.network.join(newcomer)
            self.network.change(leader, "add", newcomer, self.outcomes)
        elif kind < 0.7 and (able := [each for each in leader.learners if leader.group.peers[each].remembers]):
            # One with an empty disk could never say again that it remembers, were its vote needed for the next commit.
            self.network.change(leader, "promote", self.draw.choice(able), self.outcomes)
        elif len(leader.voters) > 1:
            leaving = self.draw.choice(members)
            if all(peer.voter for peer in leader.group.peers.values() if peer.node_id in {*leader.voters} - {leaving}):
                self.network.change(leader, "remove", leaving, self.outcomes)

    def wipes(self) -> bool:
        """No disk is lost: of two voters one would be half of them."""
        return False

    def _calm(self) -> None:
        super()._calm()
        self.network.run(10)  # a leader may still find itself removed, and another one be elected

    def _settled(self) -> bool:
        if not any(node.group.established for node in self.network.nodes.values()):
            return False
        leader = self.network.leader()
        members = [self.network.nodes[node_id] for node_id in (*leader.voters, *leader.learners)]
        return "last" in leader.texts() and all(node.applied == leader.applied for node in members)

    def _judge(self, final: Counter[str]) -> None:
        super()._judge(final)
        self.changes = sum(text.startswith("member ") for text in final)


@seeds(16)
def test_random_changes(tmp_path: Path, seed: int) -> None:
    """No seed loses, doubles or reorders anything, no two nodes trust themselves at once, and in the end all members
    are equal and commit again."""
    try:
        MemberTrial(tmp_path, seed).run()
    except AssertionError as error:
        again = replay("tests/replication/raft/test_members_model.py::test_random_changes", seed)
        raise AssertionError(f"{error}\n{again}") from error


def test_the_trial_changes_members(tmp_path: Path) -> None:
    """The control of the trial itself: a run sees many changes, not a cluster that stands still."""
    trial = MemberTrial(tmp_path, 4)
    trial.run()
    assert trial.changes >= 10


def grown(directory: Path) -> SimNetwork:
    """A, B, C with the learners D and E; A leads."""
    network = SimNetwork(directory)
    leader = network.elect("A")
    for newcomer in "DE":
        network.join(newcomer)
        network.change_now(leader, "add", newcomer)
    network.fill(leader, 3)
    network.run(2.0)
    return network


def split(network: SimNetwork) -> set[int | None]:
    """D and E get their votes, one after the other. B and C hear of the first commit with the second change, and lose
    power when that is on their disks and what is committed is not. They wake up alone. The terms of what is committed,
    by whoever takes it for that, where A's next entry stands: one, or they have parted."""
    leader = network.nodes["A"]
    network.drop = lambda source, target, message: message["type"] == "heartbeat" and target in "BC"
    network.change_now(leader, "promote", "D")
    outcomes: list[tuple[str, Outcome]] = []
    network.change(leader, "promote", "E", outcomes)
    last = leader.group.last_index
    for node_id in "BC":
        assert network.run(1.0, lambda node_id=node_id: network.nodes[node_id].journal.durable_index == last)  # type: ignore[misc]
        network.kill(node_id)
    assert network.answered(outcomes, 1)
    network.isolate("B", "C")
    for node_id in "BC":
        assert network.start(node_id).group.commit_index < last - 1
    index = network.fill(leader, 1, "mine")[0][1].index
    network.run(5.0)
    network.drop = lambda source, target, message: False
    committed = [node.journal for node in network.nodes.values() if node.group.commit_index >= index]
    return {journal.term_at(index) for journal in committed}


def test_a_node_stands_with_one_unapplied_change_at_the_most(tmp_path: Path) -> None:
    """Rule 2: B and C hold both changes, have applied none, and are a majority of the voters before. They see that the
    first one is committed, count with four voters, and elect nobody."""
    network = grown(tmp_path)
    assert split(network) == {network.nodes["A"].group.term}
    assert sorted(network.nodes["B"].voters) == ["A", "B", "C", "D"]
    network.heal()
    assert network.run(10.0, network.equal)


def test_without_that_rule_two_majorities_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the same script, each node counting with what it happens to have applied."""
    monkeypatch.setattr(Votes, "_may_stand", lambda votes: votes._context.roster.votes)
    assert len(split(grown(tmp_path))) == 2


def overtaken(network: SimNetwork) -> SimNode:
    """The leader A of five proposes two changes that reach B alone, both lose power, the rest elects a leader and goes
    on; B comes back first. B."""
    leader = network.elect("A")
    network.fill(leader, 3)
    network.isolate("A", "B")
    network.change(leader, "remove", "C")
    network.change(leader, "remove", "D")
    network.run(0.05)
    network.kill("A")
    network.kill("B")
    assert network.run(5.0, lambda: any(network.nodes[node_id].group.established for node_id in "CDE"))
    network.fill(network.leader(), 3, "other")
    node = network.start("B")
    network.run(2.0)
    return node


def test_one_change_is_under_way_at_a_time(tmp_path: Path) -> None:
    """Rule 1: the second is refused while the first is not applied; what comes after it may go on."""
    network = SimNetwork(tmp_path, "ABCDE")
    leader = network.elect("A")
    outcomes: list[tuple[str, Outcome]] = []
    network.change(leader, "remove", "C", outcomes)
    assert leader.group.changing
    network.change(leader, "remove", "D", outcomes)
    network.propose(leader, "other", outcomes)
    assert network.answered(outcomes, 3)
    assert [outcome.error for _text, outcome in outcomes] == [CHANGING, None, None]
    assert not leader.group.changing


def test_an_overtaken_change_is_not_taken_for_committed(tmp_path: Path) -> None:
    """With rule 1 the log of B holds one change, which proves nothing: B waits for the leader of the others."""
    network = SimNetwork(tmp_path, "ABCDE")
    node = overtaken(network)
    assert sorted(node.voters) == ["A", "B", "C", "D", "E"]
    network.heal()
    network.start("A")
    assert network.run(10.0, network.equal)


def test_without_that_rule_a_change_that_never_was_takes_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: a leader that proposes as many changes as it likes makes B take the first one for committed."""
    monkeypatch.setattr(RaftGroup, "changing", False)
    node = overtaken(SimNetwork(tmp_path, "ABCDE"))
    assert sorted(node.voters) == ["A", "B", "D", "E"]


def test_a_transfer_to_a_node_that_is_removed_is_called_off(tmp_path: Path) -> None:
    """Its removal is applied while it is waited for; the leader leads on. (It looked for the node and died of it.)"""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.isolate("C")
    outcomes: list[tuple[str, Outcome]] = []
    network.change(leader, "remove", "C", outcomes)
    told: list[bool] = []
    leader.group.transfer("C", told.append)
    assert network.answered(outcomes, 1)
    assert network.run(0.1, lambda: bool(told))
    assert told == [False]
    leader.group.transfer("C", told.append)
    assert told == [False, False]
    network.fill(leader, 2)


def test_a_learner_is_no_part_of_any_majority(tmp_path: Path) -> None:
    """R20: one of three is down and an empty fourth is added; commits go on, which with four counted would wait for
    it, and so would the leader's trust. The library counts it at once."""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.kill("C")
    network.join("D")
    network.isolate("D")
    network.change_now(leader, "add", "D")
    network.fill(leader, 3)
    assert leader.group.peers["D"].learner
    assert not leader.group.peers["D"].voter
    network.run(1.0)  # no echo of before counts any more
    assert leader.group.trusted(network.now)


def test_a_leader_that_applies_its_own_removal_steps_down(tmp_path: Path) -> None:
    """When a majority of the others has applied it as well: they elect one of themselves, and it stands no more."""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.change_now(leader, "remove", "A")
    assert leader.group.is_leader
    assert network.run(0.1, lambda: not leader.group.is_leader)
    assert any(sorted(network.nodes[node_id].voters) == ["B", "C"] for node_id in "BC")
    assert network.elect().id in ("B", "C")
    network.fill(network.leader(), 3)
    network.run(5.0)
    assert leader.group.role == "learner"
    assert leader.group.term <= network.leader().group.term


def test_a_removed_leader_leaves_nobody_who_needs_its_vote(tmp_path: Path) -> None:
    """Of two, the leader removes itself while the other one hears no heartbeats; only when that one has applied it
    does it step down and end, and the other one goes on alone. (It ended at once, and its vote was needed for ever.)"""
    network = SimNetwork(tmp_path, "AB")
    leader = network.elect("A")
    heard = network.now + 0.2
    network.drop = lambda source, target, message: message["type"] == "heartbeat" and network.now < heard
    network.change_now(leader, "remove", "A")
    assert network.run(1.0, lambda: not leader.group.is_leader)
    network.kill("A")
    assert network.elect().id == "B"
    network.fill(network.leader(), 2)


def test_a_removed_leader_that_lost_leadership_says_what_it_knows(tmp_path: Path) -> None:
    """Of two, the leader applies its own removal, goes on, and steps down before the other one heard that it is
    committed. Its log is the longer one, so it gives no vote, and it stands no more; the other one hears from it that
    it is alone. (Both were up, and nobody led for ever.)"""
    network = SimNetwork(tmp_path, "AB")
    leader = network.elect("A")
    network.fill(leader, 2)
    network.run(0.2)
    network.drop = lambda source, target, message: (source, message["type"]) == ("A", "heartbeat")
    network.change_now(leader, "remove", "A")
    network.isolate("B")
    network.propose(leader, "of nobody")
    network.run(1)
    assert not leader.group.is_leader
    assert network.nodes["B"].voters == ["A", "B"]
    network.heal()
    assert network.elect(seconds=5).id == "B"
    assert network.nodes["B"].voters == ["B"]
    assert leader.group.last_index > leader.group.commit_index
    network.fill(network.leader(), 2, "after")


def test_what_is_committed_is_taken_for_that_only_if_the_log_holds_it(tmp_path: Path) -> None:
    """Another entry at that index, one that is not there, or an older one changes nothing; a candidate that learns of
    more stops counting votes."""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.fill(leader, 3)
    network.run(0.2)
    network.isolate("B")
    network.kill("A")
    network.kill("C")
    group = network.nodes["B"].group
    index, term = group.commit_index, group.term
    network.nodes["B"].journal.add(b"tail", index + 1, term)
    for said in ((index + 1, term + 1), (index + 2, term), (index - 1, term)):
        group.receive("A", {"type": "committed", "index": said[0], "entry_term": said[1]})
        assert group.commit_index == index
    group._votes._campaign(network.now)
    assert group.role == "candidate"
    group.receive("A", {"type": "committed", "index": index + 1, "entry_term": term})
    assert group.commit_index == index + 1
    assert group.role == "follower"


def test_a_voter_that_does_not_know_it_yet_gives_its_vote(tmp_path: Path) -> None:
    """One node has given a second one its vote, and loses power before that one heard of it: the two need each other,
    and the second votes although it takes itself for a learner."""
    network = SimNetwork(tmp_path, "A")
    leader = network.elect("A")
    network.join("B")
    network.change_now(leader, "add", "B")
    assert network.run(5.0, lambda: network.nodes["B"].journal.voter)
    network.run(1.0)
    network.cut.add(("A", "B"))
    network.change_now(leader, "promote", "B")
    assert network.nodes["B"].learners == ["B"]
    network.restart("A")
    network.heal()
    assert network.elect().id == "A"
    network.fill(network.leader(), 2)
    assert network.run(1.0, lambda: network.nodes["B"].voters == ["A", "B"])
