"""The way of a call to the leader: waited for, asked once, asked again where nothing was done."""

import asyncio
from contextvars import copy_context

import pytest
from msgspec.structs import replace

from api.port.forward import ANSWERED
from api.port.forward import Answered as Holder
from api.port.problem import NO_LEADER_CAME, Problem
from node.peer_wire.connection import Busy, Lost
from node.peer_wire.to_leader import lost_answer
from node.port.codec import decode, encode
from node.port.group_frames import OPERATIONS, READS, FramedGroup, read_answer
from node.port.group_port import ClusterDocument
from node.port.message_port import CancelAsked, MessageAsked
from node.port.peer_port import AGAIN_S, LEADER_WAIT_S
from node.port.pull_port import PullAsked
from node.port.refusal import NOTHING_DONE
from node.port.trust_window import SentWindow
from tests.node.peer_wire.leaders import ASKED, DONE, Follower, now, play, problem, refused
from tests.virtual_time import passes
from tests.waiting import turns

PULL = encode(PullAsked(1, "t", 1, wait_ms=6_000))


def test_a_call_goes_to_the_leader() -> None:
    """Its name and its bytes; what that answers comes back as it is."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls("schedule", b"frame")
        await turns()
        ((name, frame, _),) = follower.lines["n2"].made
        assert (name, frame) == ("schedule", b"frame")
        follower.lines["n2"].answers(b"\0answer")
        assert await calling == b"\0answer"
        assert follower.reached == ["n2"]

    play(scene)


@pytest.mark.parametrize("code", ["busy", "unknown-topic", "outcome-unknown", "disk-full", "internal"])
def test_a_refusal_of_the_leader_comes_back(code: str) -> None:
    """At once, and once: it may have been done, or would be refused again."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls()
        await turns()
        follower.lines["n2"].answers(refused(code))
        assert await calling == refused(code)
        assert len(follower.lines["n2"].made) == 1

    play(scene)


def test_a_call_waits_for_a_leader() -> None:
    """For two seconds: it is asked in the step in which it is heard of, not before it can be reached."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls()
        await passes(LEADER_WAIT_S - 0.2)
        follower.knows("n3", http=None)  # elected, and not established
        follower.to_leader.leader_changed()
        await passes(0.1)
        assert follower.reached == []
        follower.hears("n3")
        await turns()
        assert follower.lines["n3"].names == ["schedule"]
        follower.lines["n3"].answers(DONE)
        assert await calling == DONE

    play(scene, leader=None)


def test_a_call_does_not_wait_longer() -> None:
    """Two seconds after it came: nothing was sent."""

    async def scene(follower: Follower) -> None:
        begun = now()
        refusal = await problem(follower.calls())
        assert (refusal.code, refusal.detail) == ("no-leader", NO_LEADER_CAME)
        assert now() - begun == pytest.approx(LEADER_WAIT_S, abs=0.01)
        assert follower.reached == []

    play(scene, leader=None)


@pytest.mark.parametrize("why", ["away", "older build", "no member", "lost at once"])
def test_a_leader_that_takes_no_connection(why: str) -> None:
    """It is asked again until the two seconds are over, after pauses that grow: it is known for a moment after it has
    died, and thousands may wait for it."""

    async def scene(follower: Follower) -> None:
        if why == "away":
            follower.away.add("n2")
        elif why == "lost at once":
            follower.lines["n2"].fails = Lost("no connection", begun=False)
        else:
            peers = tuple(replace(each, calls=False) for each in follower.status.peers)
            follower.status = replace(follower.status, peers=peers if why == "older build" else ())
        begun = now()
        refusal = await problem(follower.calls())
        assert refusal.code == "no-leader"
        assert "takes no connection; nothing was sent" in refusal.detail
        assert LEADER_WAIT_S - 2 * AGAIN_S <= now() - begun <= LEADER_WAIT_S + 0.01
        assert len(follower.reached) == (8 if why in ("away", "lost at once") else 0)
        assert follower.lines["n2"].made == []

    play(scene)


def test_the_next_leader_is_asked_when_the_former_takes_no_connection() -> None:
    """In the step in which it is heard of."""

    async def scene(follower: Follower) -> None:
        follower.away.add("n2")
        calling = follower.calls()
        await passes(0.5)
        follower.hears("n3")
        await turns()
        follower.lines["n3"].answers(DONE)
        assert await calling == DONE

    play(scene)


@pytest.mark.parametrize("code", sorted(NOTHING_DONE))
@pytest.mark.parametrize("who", ["n2", "n3", "n1"])
def test_where_nothing_was_done_it_is_asked_again(code: str, who: str) -> None:
    """Of the same node a moment later, of another one at once: also of this one."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls("cluster")
        await turns()
        if who != "n2":
            follower.knows(who)
        follower.lines["n2"].answers(refused(code))
        begun = now()
        if who != "n1":
            line = follower.lines[who]
            while len(line.made) < 1 + (who == "n2"):
                await passes(AGAIN_S / 4)
            line.answers(DONE)
            assert await calling == DONE
        else:
            assert read_answer("cluster", await calling) == ClusterDocument({"node": "n2"})
        assert now() - begun == pytest.approx(AGAIN_S if who == "n2" else 0, abs=AGAIN_S / 2)

    play(scene)


def test_where_nothing_is_done_for_two_seconds_that_is_the_answer() -> None:
    """What the leader said last."""

    async def scene(follower: Follower) -> None:
        line = follower.lines["n2"]
        line.at_once = lambda: refused("draining")
        begun = now()
        assert await follower.calls() == refused("draining")
        assert LEADER_WAIT_S - 2 * AGAIN_S <= now() - begun <= LEADER_WAIT_S + 0.01
        assert len(line.made) == pytest.approx(LEADER_WAIT_S / AGAIN_S, abs=2)

    play(scene)


@pytest.mark.parametrize("name", ["schedule", "ack", "pull", "count", "message", "cluster"])
def test_a_call_that_was_begun_is_not_made_again(name: str) -> None:
    """The connection ended: it may have been done. What changes nothing was not; whoever asked may ask again."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls(name, PULL if name == "pull" else ASKED)
        await turns()
        follower.lines["n2"].loses(begun=True)
        refusal = await problem(calling)
        assert refusal.code == ("no-leader" if name in READS else "outcome-unknown")
        assert "the connection ended" in refusal.detail
        assert len(follower.lines["n2"].made) == 1
        assert follower.reached == ["n2"]

    play(scene)


def test_a_call_that_was_not_begun_is_made_again() -> None:
    """Nothing of it had left."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls()
        await turns()
        follower.lines["n2"].loses(begun=False)
        await passes(2 * AGAIN_S)
        assert len(follower.lines["n2"].made) == 2
        follower.lines["n2"].answers(DONE)
        assert await calling == DONE

    play(scene)


#: Calls that change something.
WRITES = {
    "ack", "add_member", "begin_operation", "cancel", "change_operation", "delete_topic", "drain", "extend", "nack",
    "once", "outcomes", "pull",
    "put_topic", "remove_member", "reschedule", "schedule", "schedule_all", "schedule_each", "schedule_one", "snapshot",
    "takeover", "transfer", "undrain", "upgrade",
}  # fmt: skip


def test_a_call_changes_something_or_does_not() -> None:
    """Each operation is told as one of both: `messages` was in neither, and its client was to send again with a key."""
    assert OPERATIONS.keys() == READS | WRITES
    assert not READS & WRITES


def waits_ms(follower: Follower, leader: str) -> int:
    """How long the newest pull may wait at this leader."""
    return decode(PullAsked, follower.lines[leader].made[-1][1]).wait_ms


def test_a_pull_waits_for_the_rest_at_the_next_leader() -> None:
    """Its `wait` is that of the whole request, whoever leads meanwhile. What it waits at a leader is no wait for one:
    after five seconds there it still has two to hear of the next."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls("pull", PULL, wait=1)
        await turns()
        assert waits_ms(follower, "n2") == 6_000
        await passes(4)
        follower.knows(None)
        follower.lines["n2"].answers(refused("no-leader"))
        await passes(1.5)
        follower.hears("n3")
        await turns()
        assert waits_ms(follower, "n3") == pytest.approx(500, abs=20)
        follower.lines["n3"].answers(DONE)
        assert await calling == DONE

    play(scene)


def test_a_pull_that_waited_for_a_leader_waits_less_for_messages() -> None:
    """The time before the first leader counts too. When nothing is left, the leader gives what is ready."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls("pull", encode(PullAsked(1, "t", 1, wait_ms=1_000)), wait=1)
        await passes(1.5)
        follower.hears("n3")
        await turns()
        assert waits_ms(follower, "n3") == 0
        follower.lines["n3"].answers(DONE)
        assert await calling == DONE

    play(scene, leader=None)


def test_a_leader_that_keeps_a_pull_too_long_has_no_further_time() -> None:
    """Only what the pull was to wait does not count: a call ends, whatever leaders do."""

    async def scene(follower: Follower) -> None:
        begun = now()
        calling = follower.calls("pull", PULL, wait=1)
        await passes(7.9)
        follower.knows(None)
        follower.lines["n2"].answers(refused("draining"))
        assert (await problem(calling)).code == "no-leader"
        assert now() - begun == pytest.approx(6 + LEADER_WAIT_S, abs=0.1)

    play(scene)


def test_every_call_has_words_for_an_answer_that_is_lost() -> None:
    """What was pulled comes again; what changes something is to be sent with the same key."""
    for name in OPERATIONS:
        refusal = lost_answer(name, "gone")
        assert refusal.code == ("no-leader" if name in READS else "outcome-unknown")
    assert "when its lease has ended" in lost_answer("pull", "gone").detail
    assert "with the same key" in lost_answer("schedule", "gone").detail


def test_a_leader_that_takes_no_more_is_busy() -> None:
    """Nothing was sent; it is not asked again."""

    async def scene(follower: Follower) -> None:
        follower.lines["n2"].fails = Busy("16384 requests are under way to n2, which takes no more")
        refusal = await problem(follower.calls())
        assert (refusal.code, refusal.status) == ("busy", 429)
        assert refusal.detail.endswith("takes no more; try again")
        assert follower.reached == ["n2"]

    play(scene)


def test_the_node_itself_may_become_the_leader() -> None:
    """The group here is asked; its refusals are looked at as another's."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls("cluster")
        await passes(1)
        follower.hears("n1")
        assert read_answer("cluster", await calling) == ClusterDocument({"node": "n2"})
        assert follower.reached == []
        with pytest.raises(Problem, match="unknown-message"):
            read_answer("message", await follower.calls("message", encode(MessageAsked("m"))))

    play(scene, leader=None)


@pytest.mark.parametrize("read", [False, True])
def test_who_answered_is_told(read: bool) -> None:
    """In the context of the request, with the term; where nobody wants to know it, it is not."""

    async def scene(follower: Follower) -> None:
        holder = Holder()
        context = copy_context()
        if read:
            context.run(ANSWERED.set, holder)
        calling = asyncio.get_running_loop().create_task(follower.to_leader.call("schedule", ASKED, 0), context=context)
        await turns()
        follower.lines["n2"].answers(refused("no-leader"), term=8)
        await passes(2 * AGAIN_S)
        follower.lines["n2"].answers(DONE, term=9)
        assert await calling == DONE
        assert (holder.node, holder.term) == (("n2", 9) if read else ("", 0))

    play(scene)


@pytest.mark.parametrize("answer", [b"\1", b"\1\xc1", b"\1\x92\x01\x02", b"\0\xc1", b"", b"\7\x90"])
def test_an_answer_that_cannot_be_read(answer: bytes) -> None:
    """Perhaps of another build: it may have been done, so nobody sends it again, and who asked is told so."""

    async def scene(follower: Follower) -> None:
        group = FramedGroup(0, SentWindow(), follower.to_leader)
        calling = asyncio.ensure_future(group.cancel(CancelAsked("m")))
        await turns()
        follower.lines["n2"].answers(answer)
        refusal = await problem(calling)  # type: ignore[arg-type]
        assert refusal.code == "outcome-unknown"
        assert len(follower.lines["n2"].made) == 1

    play(scene)


def test_a_code_that_this_build_does_not_know() -> None:
    """Of a later build: likewise."""

    async def scene(follower: Follower) -> None:
        group = FramedGroup(0, SentWindow(), follower.to_leader)
        calling = asyncio.ensure_future(group.cancel(CancelAsked("m")))
        await turns()
        follower.lines["n2"].answers(refused("unheard-of"))
        assert (await problem(calling)).code == "outcome-unknown"  # type: ignore[arg-type]

    play(scene)


def test_a_caller_that_goes_away_ends_its_call() -> None:
    """At the leader, or where it waits for one."""

    async def scene(follower: Follower) -> None:
        calling = follower.calls()
        await turns()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        assert follower.lines["n2"].ended == [follower.lines["n2"].made[0][2]]
        follower.knows(None)
        waiting = follower.calls(wait=4)
        await turns()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled()

    play(scene)
