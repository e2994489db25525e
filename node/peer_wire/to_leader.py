"""The way of a call to the leader of a group, from a node that does not lead it.

A call is sent once. If the connection ends after the call may have been read, the outcome is not known. The client is
told so, because without a key a second sending could schedule a second message. While there is no leader a call waits
for one, a little longer than an election takes: nothing has been proposed yet. When another node leads, the calls that
still wait for the former leader's answer end a moment later. The former leader may be paused, and would answer when it
wakes, or never.

A leader that gives its leadership away, or loses it, refuses with `no-leader` or `draining`, which say that nothing was
done. Such a call is sent to the next leader, as long as LEADER_WAIT_S have not passed since it began. The time does not
count that a pull has waited for messages at a leader. The next leader is asked to wait only for what is left of `wait`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from msgspec.structs import replace

from api.port.forward import tell
from api.port.problem import NO_LEADER_CAME, Problem
from node.peer_wire.connection import Answered, Busy, Call, Lost, PeerConnection
from node.peer_wire.wire import PeerWire
from node.port.codec import BadFrame, decode, encode
from node.port.group_frames import READS, GroupFrames, read_answer, refusal_of
from node.port.group_port import GroupPort, GroupStatus, PeerNode
from node.port.peer_port import AGAIN_S, FAREWELL_S, LEADER_WAIT_S
from node.port.pull_port import Claims, Deliveries, NackAsked, PullAsked, check_window, claims_of
from node.port.refusal import NOTHING_DONE

#: Calls that the former leader answers even when another node leads, because they move its own leadership.
OF_THE_FORMER: Final = frozenset(("transfer", "remove_member"))


@dataclass(eq=False, slots=True)
class _UnderWay:
    """A call from its beginning to its answer. `connection` and `call` are None while it is not sent to a leader."""

    task: asyncio.Task[bytes] | None
    name: str
    frame: bytes
    connection: PeerConnection | None = None
    call: Call | None = None
    ended: bool = False  # no request waits for it


class ToLeader:
    """Carries calls to the leader. Implements node.port.group_frames.Frames. `local` returns the group on this node,
    which is asked when this node leads."""

    def __init__(
        self,
        status: Callable[[], GroupStatus],
        local: Callable[[], GroupPort],
        wire: PeerWire,
        now_s: Callable[[], float],
    ) -> None:
        """`now_s` is the machine's monotonic clock."""
        self._status, self._local, self._wire, self._now_s = status, local, wire, now_s
        self._changed = asyncio.Event()
        self.open = 0
        """Calls that are not answered."""
        self._under_way: dict[_UnderWay, None] = {}  # calls that are at a leader
        self._waits: dict[int, _UnderWay] = {}
        self._giving: set[asyncio.Task[None]] = set()

    def leader_changed(self) -> None:
        """Wake the calls that wait for a leader. End, after FAREWELL_S, those that were sent to another node."""
        self._changed.set()
        self._changed = asyncio.Event()
        if former := list(filter(self._is_former, self._under_way)):
            asyncio.get_running_loop().call_later(FAREWELL_S, self._end_former, former)

    async def call(self, name: str, frame: bytes, wait: int) -> bytes:
        """See Frames. Raises `no-leader` and `busy` (nothing was done), and `outcome-unknown`."""
        under_way = _UnderWay(asyncio.current_task(), name, frame)
        if wait:
            self._waits[wait] = under_way
        self.open += 1
        try:
            return await self._call(under_way)
        finally:
            self.open -= 1
            self._waits.pop(wait, None)

    async def _call(self, under_way: _UnderWay) -> bytes:
        loop = asyncio.get_running_loop()
        begun_s, pause_s = loop.time(), AGAIN_S
        pull = decode(PullAsked, under_way.frame) if under_way.name == "pull" else None
        until_s = begun_s + (pull.wait_ms / 1000 if pull is not None else 0.0)  # it waits for messages
        deadline = begun_s + LEADER_WAIT_S
        while True:
            leader = await self._until_known(deadline)
            asked_s = loop.time()
            if pull is not None and asked_s - begun_s >= AGAIN_S:
                under_way.frame = encode(replace(pull, wait_ms=max(0, round(1000 * (until_s - asked_s)))))
            answer = await self._ask(leader, under_way)
            if answer is not None and (under_way.ended or not _nothing_done(answer)):
                return answer
            deadline += max(0.0, min(loop.time(), until_s) - asked_s)
            if under_way.ended:
                raise Problem("no-leader", "nobody waits for it any more; nothing was sent")
            if self._leader() != leader:
                continue  # ask the new leader, however late that is
            if loop.time() + AGAIN_S >= deadline:
                if answer is not None:
                    return answer
                raise Problem("no-leader", "the leader takes no connection; nothing was sent")
            with contextlib.suppress(TimeoutError):  # that leader is gone, or not established yet
                await asyncio.wait_for(self._changed.wait(), min(pause_s, deadline - loop.time()))
            pause_s = AGAIN_S if answer is not None else 2 * pause_s  # thousands may wait for a leader that is gone

    async def _ask(self, leader: str, under_way: _UnderWay) -> bytes | None:
        """Return this leader's answer. None if nothing was sent."""
        status = self._status()
        if leader == status.node:
            answer = await self._here(under_way)
            tell(status.node, self._status().term)
            return answer
        peer = next((each for each in status.peers if each.node == leader), None)
        if peer is None or not peer.calls:
            return None
        connection = self._wire.usable(peer.node) or await self._reached(peer)
        if connection is None:
            return None
        try:
            call = connection.begin(under_way.name, under_way.frame)
        except Lost:
            return None
        except Busy as busy:
            raise Problem("busy", f"{busy}; try again") from None
        answered = await self._answer(under_way, connection, call)
        if answered is None:
            return None
        tell(answered.node, answered.term)
        return answered.frame

    async def _here(self, under_way: _UnderWay) -> bytes:
        """Ask this node's own group, because this node leads by now. If the trust window is over when its answer is
        here, handed-over messages are given back."""
        port = self._local()
        answer = await GroupFrames(port).call(under_way.name, under_way.frame, 0)
        if under_way.name != "pull" or refusal_of(answer) is not None:
            return answer
        topic, handed = decode(PullAsked, under_way.frame).topic, cast(Deliveries, read_answer("pull", answer))
        check_window(port, topic, handed, self._now_s())
        return answer

    async def _reached(self, peer: PeerNode) -> PeerConnection | None:
        """Return a connection with the peer. None if it takes no connection, or if the leader changes first."""
        reaching = asyncio.ensure_future(self._wire.reach(peer))
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((reaching, changed), return_when=asyncio.FIRST_COMPLETED)
            return reaching.result() if reaching.done() else None
        finally:
            changed.cancel()
            reaching.cancel()

    async def _answer(self, under_way: _UnderWay, connection: PeerConnection, call: Call) -> Answered | None:
        under_way.connection, under_way.call = connection, call
        self._under_way[under_way] = None
        try:
            return await call.answer
        except Lost as lost:
            if not lost.begun:
                return None
            raise lost_answer(under_way.name, str(lost)) from None
        except asyncio.CancelledError:
            connection.end(call)
            raise
        finally:
            del self._under_way[under_way]
            under_way.connection = under_way.call = None

    # -- calls that are ended

    def end_wait(self, wait: int) -> None:
        """See Frames."""
        under_way = self._waits.get(wait)
        if under_way is None:
            return
        if under_way.connection is not None and under_way.call is not None:
            under_way.ended = True
            under_way.connection.end(under_way.call)
        elif under_way.task is not None:
            under_way.task.cancel()

    def _is_former(self, under_way: _UnderWay) -> bool:
        connection = under_way.connection
        assert connection is not None, "it is at a leader"
        return connection.peer != self._leader() and under_way.name not in OF_THE_FORMER

    def _end_former(self, former: list[_UnderWay]) -> None:
        for under_way in former:
            if under_way not in self._under_way or not self._is_former(under_way):
                continue
            assert under_way.connection is not None, "it is at a leader"
            assert under_way.call is not None, "it is at a leader"
            if under_way.name == "pull":
                under_way.call.late = partial(self._late, decode(PullAsked, under_way.frame).topic)
            under_way.connection.give_up(under_way.call, "another node leads now")

    def _late(self, topic: str, answered: Answered) -> None:
        """Give back the messages that a pull brought after its request had ended."""
        with contextlib.suppress(Problem):
            handed = cast(Deliveries, read_answer("pull", answered.frame))
            if handed.bodies:
                self.give_back(encode(Claims(topic, claims_of(handed))))

    def give_back(self, frame: bytes) -> None:
        """See Frames. The messages go to any leader as a nack that does not count: the claims name the hand-overs."""
        asked = encode(NackAsked(decode(Claims, frame), 0, counted=False))
        task = asyncio.ensure_future(self._nack(asked))
        self._giving.add(task)
        task.add_done_callback(self._giving.discard)

    async def _nack(self, asked: bytes) -> None:
        with contextlib.suppress(Problem):  # no node leads: the leases run
            await self.call("nack", asked, 0)

    async def close(self) -> None:
        """Wait for messages that are being given back, FAREWELL_S at most."""
        if self._giving:
            await asyncio.wait(self._giving, timeout=FAREWELL_S)
        for task in self._giving:
            task.cancel()

    # -- the leader

    def _leader(self) -> str | None:
        """Return the node to which requests may be sent now. None if there is no such node."""
        status = self._status()
        return status.leader if status.leads or status.leader_http is not None else None

    async def _until_known(self, deadline: float) -> str:
        while (leader := self._leader()) is None:
            try:
                await asyncio.wait_for(self._changed.wait(), deadline - asyncio.get_running_loop().time())
            except TimeoutError:
                raise Problem("no-leader", NO_LEADER_CAME) from None
        return leader


def _nothing_done(answer: bytes) -> bool:
    try:
        refusal = refusal_of(answer)
    except BadFrame:
        return False
    return refusal is not None and refusal.code in NOTHING_DONE


def lost_answer(name: str, why: str) -> Problem:
    """Return the refusal for a call whose answer will not come. A read did nothing, so it may be sent again. A pull may
    have leased messages."""
    if name in READS:
        return Problem("no-leader", f"{why}; ask again")
    if name == "pull":
        return Problem("outcome-unknown", f"{why}; what it handed over comes again when its lease has ended")
    return Problem("outcome-unknown", f"{why}; send again with the same key")
