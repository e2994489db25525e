"""Calls under way when another node leads, waits that are ended, and what comes when nobody has it."""

import asyncio

import pytest

from api.port.problem import Problem
from node.peer_wire.to_leader import OF_THE_FORMER
from node.port.codec import decode, encode
from node.port.group_frames import FramedGroup, answer_frame, read_answer
from node.port.group_port import ClusterDocument
from node.port.peer_port import FAREWELL_S, LEADER_WAIT_S
from node.port.pull_port import Claims, Deliveries, NackAsked, PullAsked, claims_of
from node.port.trust_window import SentWindow
from tests.node.peer_wire.group import handed_over
from tests.node.peer_wire.leaders import DONE, Follower, now, play, problem, refused
from tests.virtual_time import passes
from tests.waiting import turns

PULL = encode(PullAsked(4, "mail", 10, 20_000))
CLAIMS = Claims("mail", claims_of(handed_over(b"one", b"two")))
HANDED = answer_frame(handed_over(b"one", b"two"))


def given_back(follower: Follower, node: str) -> list[NackAsked]:
    """What this node was told that nobody has."""
    return [decode(NackAsked, frame) for name, frame, _ in follower.lines[node].made if name == "nack"]


def test_what_the_former_leader_answers_in_time_still_comes() -> None:
    """It has a quarter of a second from when another one is heard of."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls()
        await passes(5)
        follower.hears("n3")
        await passes(FAREWELL_S - 0.01)
        assert not calling.done()
        follower.lines["n2"].answers(DONE)
        assert await calling == DONE
        await passes(1)
        assert follower.lines["n2"].ended == []

    play(scene)


@pytest.mark.parametrize("name", ["schedule", "pull", "cluster"])
def test_a_call_to_the_former_leader_ends(name: str) -> None:
    """It may have been done, and is not asked of the new one."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls(name, PULL)
        await passes(5)
        follower.hears("n3")
        begun = now()
        refusal = await problem(calling)
        assert now() - begun == pytest.approx(FAREWELL_S, abs=0.01)
        assert refusal.code == ("no-leader" if name == "cluster" else "outcome-unknown")
        assert refusal.detail.startswith("another node leads now; ")
        assert follower.lines["n2"].ended == [follower.lines["n2"].made[0][2]]
        assert follower.lines["n3"].made == []

    play(scene)


@pytest.mark.parametrize("name", sorted(OF_THE_FORMER))
def test_what_the_former_leader_alone_can_answer_goes_on(name: str) -> None:
    """The call that gave leadership away, or removed the leader."""

    async def scene(follower: Follower) -> None:
        calling, other = follower.calls(name), follower.calls()
        await turns()
        follower.hears("n3")
        assert (await problem(other)).code == "outcome-unknown"
        await passes(10)
        follower.lines["n2"].answers(DONE, at=0)
        assert await calling == DONE

    play(scene)


def test_a_leader_that_is_lost_for_a_moment_is_not_the_former() -> None:
    """The same one is heard again within the quarter of a second."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls()
        await turns()
        follower.hears(None)
        await passes(FAREWELL_S / 2)
        follower.hears("n2")
        await passes(10)
        follower.lines["n2"].answers(DONE)
        assert await calling == DONE

    play(scene)


def test_each_call_has_its_quarter_of_a_second() -> None:
    """Two changes follow each other closely: what was begun between them has as long as any other."""

    async def scene(follower: Follower) -> None:
        first = follower.calls()
        await turns()
        follower.hears("n3")
        second = follower.calls()
        await passes(FAREWELL_S - 0.05)
        follower.hears("n2")
        changed = now()
        await passes(0.1)
        follower.lines["n2"].answers(DONE)
        assert await first == DONE
        assert (await problem(second)).code == "outcome-unknown"
        assert now() - changed == pytest.approx(FAREWELL_S, abs=0.01)

    play(scene)


def test_calls_go_on_here_when_this_node_leads() -> None:
    """One that waits is asked of the group here; one under way to the former leader ends."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls()
        await turns()
        follower.hears(None)
        waiting = follower.calls("cluster")
        await turns()
        follower.hears("n1")
        assert read_answer("cluster", await waiting) == ClusterDocument({"node": "n2"})
        assert (await problem(calling)).code == "outcome-unknown"

    play(scene)


# -- what comes when nobody has it


def test_a_pull_that_brings_something_late_gives_it_back() -> None:
    """To who leads by then, by its topic and its receipts, uncounted."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls("pull", PULL)
        await turns()
        follower.hears("n3")
        assert (await problem(calling)).code == "outcome-unknown"
        await passes(20)
        follower.lines["n2"].answers(HANDED)
        await turns()
        assert given_back(follower, "n3") == [NackAsked(CLAIMS, 0, counted=False)]
        follower.lines["n3"].answers(DONE)
        await turns()
        assert not follower.to_leader._giving

    play(scene)


@pytest.mark.parametrize("frame", [answer_frame(Deliveries()), refused("no-leader")], ids=["empty", "refusal"])
def test_a_pull_that_brings_nothing_late(frame: bytes) -> None:
    """There is nothing to give back."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls("pull", PULL)
        await turns()
        follower.hears("n3")
        await problem(calling)
        follower.lines["n2"].answers(frame)
        await turns()
        assert follower.lines["n3"].made == []

    play(scene)


@pytest.mark.parametrize("frame", [b"", b"\1\xc1", b"\0\xc1", refused("unheard-of")[:-1]])
def test_a_pull_that_brings_late_what_cannot_be_read(frame: bytes) -> None:
    """It is no error of the connection on which it came: other calls wait there."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls("pull", PULL)
        await turns()
        follower.hears("n3")
        await problem(calling)
        follower.lines["n2"].answers(frame)  # raises nothing
        assert follower.lines["n3"].made == []

    play(scene)


def test_what_is_given_back_waits_for_a_leader() -> None:
    """For two seconds; then the leases run. Nobody hears of that."""

    async def scene(follower: Follower) -> None:
        follower.to_leader.give_back(encode(CLAIMS))
        await passes(1)
        follower.hears("n2")
        await turns()
        assert given_back(follower, "n2") == [NackAsked(CLAIMS, 0, counted=False)]
        follower.lines["n2"].answers(DONE)
        follower.hears(None)
        follower.to_leader.give_back(encode(CLAIMS))
        await passes(LEADER_WAIT_S + 0.1)
        assert not follower.to_leader._giving
        assert len(given_back(follower, "n2")) == 1

    play(scene, leader=None)


def test_what_is_given_back_to_this_node() -> None:
    """It leads by then."""

    async def scene(follower: Follower) -> None:
        follower.to_leader.give_back(encode(CLAIMS))
        await turns()
        assert follower.group.nacks == [NackAsked(CLAIMS, 0, counted=False)]

    play(scene, leader="n1")


def test_at_the_close_what_is_given_back_has_a_moment() -> None:
    """A quarter of a second, and no longer."""

    async def scene(follower: Follower) -> None:
        await follower.to_leader.close()
        follower.to_leader.give_back(encode(CLAIMS))
        closing = asyncio.ensure_future(follower.to_leader.close())
        await turns()
        assert not closing.done()
        follower.lines["n2"].answers(DONE)
        await closing
        follower.to_leader.give_back(encode(CLAIMS))
        begun = now()
        await follower.to_leader.close()
        assert now() - begun == pytest.approx(FAREWELL_S, abs=0.01)
        await turns()
        assert not follower.to_leader._giving

    play(scene)


# -- waits that are ended


def test_a_wait_that_is_ended_before_it_was_sent() -> None:
    """It waits for a leader: it is cancelled. A number that nobody waits under is passed over."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls("pull", PULL, 4)
        other = follower.calls("pull", PULL, 5)
        await turns()
        follower.to_leader.end_wait(9)
        follower.to_leader.end_wait(4)
        await turns()
        assert calling.cancelled()
        follower.to_leader.end_wait(4)
        follower.hears("n2")
        await turns()
        assert len(follower.lines["n2"].made) == 1
        follower.lines["n2"].answers(DONE)
        assert await other == DONE

    play(scene, leader=None)


def test_a_wait_that_is_ended_here() -> None:
    """This node leads: the pull of the group ends with it."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls("pull", PULL, 4)
        await turns()
        follower.to_leader.end_wait(4)
        await turns()
        assert calling.cancelled()
        assert follower.group.answers[0].cancelled()

    play(scene, leader="n1")


@pytest.mark.parametrize("after_s", [0.1, 10], ids=["soon", "later"])
def test_a_wait_that_is_ended_after_it_was_sent(after_s: float) -> None:
    """The leader hears it, and says that it handed over nothing: that is the end of it, nobody is asked again."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls("pull", PULL, 4)
        await passes(after_s)
        follower.to_leader.end_wait(4)
        assert follower.lines["n2"].ended == [follower.lines["n2"].made[0][2]]
        follower.lines["n2"].answers(refused("no-leader"))
        await passes(1)
        asked = len(follower.lines["n2"].made)
        if asked > 1:
            follower.lines["n2"].answers(DONE)
        await asyncio.gather(calling, return_exceptions=True)
        assert asked == 1, "nobody waits, and the leader is asked again"

    play(scene)


def test_a_wait_that_is_ended_while_it_stands_behind_others_is_not_made_again() -> None:
    """Its call has not begun: the connection drops it, and nobody is asked in its place."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls("pull", PULL, 4)
        await turns()
        follower.to_leader.end_wait(4)
        follower.lines["n2"].loses(begun=False)
        await passes(1)
        assert len(follower.lines["n2"].made) == 1
        with pytest.raises(Problem, match="no-leader"):
            await calling

    play(scene)


def test_what_a_wait_brings_after_it_was_ended_is_given_back() -> None:
    """The answer had left the leader before it heard so."""

    async def scene(follower: Follower) -> None:
        group = FramedGroup(0, SentWindow(), follower.to_leader)
        pulling = asyncio.ensure_future(group.pull(PullAsked(4, "mail", 10, 20_000)))
        await turns()
        pulling.cancel()
        await asyncio.gather(pulling, return_exceptions=True)
        follower.lines["n2"].answers(HANDED)
        await turns()
        assert given_back(follower, "n2") == [NackAsked(CLAIMS, 0, counted=False)]
        follower.lines["n2"].answers(DONE)
        await turns()

    play(scene)


def test_a_pull_that_is_not_ended() -> None:
    """What it brings is its caller's."""

    async def scene(follower: Follower) -> None:
        group = FramedGroup(0, SentWindow(), follower.to_leader)
        pulling = asyncio.ensure_future(group.pull(PullAsked(4, "mail", 10, 20_000)))
        await passes(15)
        follower.lines["n2"].answers(HANDED)
        assert (await pulling).bodies == [b"one", b"two"]
        await turns()
        assert len(follower.lines["n2"].made) == 1

    play(scene)


@pytest.mark.parametrize("after_s", [1.2, LEADER_WAIT_S - 0.01])
def test_who_dials_a_leader_that_is_silent_hears_of_the_next(after_s: float) -> None:
    """A paused one took both seconds of 20 writes, though another led since the first."""

    async def scene(follower: Follower) -> None:
        follower.silent.add("n2")
        calling = follower.calls()
        await passes(after_s)
        follower.hears("n3")
        await turns()
        follower.lines["n3"].answers(DONE)
        assert await calling == DONE

    play(scene)


@pytest.mark.parametrize("trusted", [True, False])
def test_what_this_node_hands_over_when_it_has_come_to_lead_leaves_within_its_window(trusted: bool) -> None:
    """As where it is asked at once. Else it is given back. That may come to nothing, so the outcome is not known."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls("pull", PULL, 4)
        await turns()
        if not trusted:
            follower.group.window.close()
        handed = handed_over(b"1", leased_until_ms=253_402_300_799_999)
        follower.group.answers[0].set_result(handed)
        if trusted:
            assert await calling == answer_frame(handed)
        else:
            assert (await problem(calling)).code == "outcome-unknown"
        assert follower.group.given_back == [Claims("mail", claims_of(handed))] * (not trusted)

    play(scene, leader="n1")
