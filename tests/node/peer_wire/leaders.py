"""A node that does not lead, on virtual time: nodes that may, and connections with them, as the test has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from msgspec.structs import replace

from api.port.problem import Problem
from node.peer_wire.connection import Answered, Busy, Call, Lost, PeerConnection
from node.peer_wire.frame import CALL
from node.peer_wire.outbox import Outgoing
from node.peer_wire.to_leader import ToLeader
from node.peer_wire.wire import PeerWire
from node.port.codec import encode
from node.port.group_frames import Nothing, answer_frame
from node.port.group_port import GroupStatus, PeerNode
from node.port.refusal import Refusal
from tests.node.peer_wire.group import Group
from tests.virtual_time import passes, virtually

DONE = answer_frame(Nothing())
ASKED = encode(Nothing())


def refused(code: str) -> bytes:
    """The frame of a refusal."""
    return answer_frame(Refusal(code, "not here"))


class Line:
    """In place of a PeerConnection: `made` are the calls that were begun, with their names. A test ends them."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.made: list[tuple[str, bytes, Call]] = []
        self.ended: list[Call] = []
        self.fails: Busy | Lost | None = None
        self.at_once: Callable[[], bytes] | None = None
        """What each call is answered in its step."""

    def begin(self, name: str, frame: bytes) -> Call:
        """See PeerConnection."""
        if self.fails is not None:
            raise self.fails
        call = Call(Outgoing(CALL, frame, lambda: (1, frame), name), asyncio.get_running_loop().create_future())
        self.made.append((name, frame, call))
        if self.at_once is not None:
            self.answers(self.at_once())
        return call

    def end(self, call: Call) -> None:
        """See PeerConnection."""
        self.ended.append(call)

    def give_up(self, call: Call, why: str) -> None:
        """See PeerConnection."""
        self.end(call)
        call.answer.set_exception(Lost(why, begun=True))

    def answers(self, frame: bytes, term: int = 7, at: int = -1) -> None:
        """The newest call is answered so; as late, if nobody waits any more."""
        call, answered = self.made[at][2], Answered(frame, self.peer, term)
        if call.answer.done():
            call.late(answered)
        else:
            call.answer.set_result(answered)

    def loses(self, *, begun: bool) -> None:
        """The connection ends under the newest call."""
        self.made[-1][2].answer.set_exception(Lost("the connection ended", begun=begun))

    @property
    def names(self) -> list[str]:
        """Of the calls."""
        return [name for name, _, _ in self.made]


class Follower:
    """n1, which knows n2 and n3."""

    def __init__(self) -> None:
        self.lines = {"n2": Line("n2"), "n3": Line("n3")}
        self.away: set[str] = set()
        """Nodes that take no connection."""
        self.silent: set[str] = set()
        """Nodes that take none and refuse none, as where their process is paused."""
        self.reached: list[str] = []
        peers = tuple(PeerNode(node, f"{node}:1", True) for node in self.lines)
        self.status = GroupStatus(group=0, node="n1", peers=peers)
        self.group = Group()
        self.gone = False
        loop = asyncio.get_running_loop()
        self.to_leader = ToLeader(lambda: self.status, self._local, cast(PeerWire, self), loop.time)

    def _local(self) -> Any:
        if self.gone:
            raise Problem("no-leader", "it is being opened")
        return self.group.port

    def usable(self, node: str) -> PeerConnection | None:
        """See PeerWire."""
        return None

    async def reach(self, peer: PeerNode) -> PeerConnection | None:
        """See PeerWire."""
        self.reached.append(peer.node)
        if peer.node in self.silent:
            await asyncio.get_running_loop().create_future()
        return None if peer.node in self.away else cast(PeerConnection, self.lines[peer.node])

    def hears(self, leader: str | None) -> None:
        """Of who leads."""
        self.knows(leader)
        self.to_leader.leader_changed()

    def knows(self, leader: str | None, http: str | None = "") -> None:
        """The same, and nobody is told."""
        self.status = replace(
            self.status, leader=leader, leads=leader == "n1", leader_http=None if leader is None else http
        )

    def calls(self, name: str = "schedule", frame: bytes = ASKED, wait: int = 0) -> asyncio.Task[bytes]:
        """Make a call."""
        return asyncio.ensure_future(self.to_leader.call(name, frame, wait))


Play = Callable[[Follower], Coroutine[Any, Any, None]]


def play(scene: Play, leader: str | None = "n2") -> None:
    """With a node that has heard of this leader."""

    async def main() -> None:
        follower = Follower()
        follower.knows(leader)
        await passes(0.001)
        await scene(follower)
        await passes(0.001)
        assert not follower.to_leader._under_way, "a call is still there"
        assert not follower.to_leader._waits

    virtually(main)


def now() -> float:
    """Seconds of the loop."""
    return asyncio.get_running_loop().time()


async def problem(calling: asyncio.Task[bytes]) -> Problem:
    """What a call is refused with."""
    (came,) = await asyncio.gather(calling, return_exceptions=True)
    assert isinstance(came, Problem), came
    return came
