"""Answers the calls that other nodes make to a group of this node.

Messages that are handed over must leave within the trust window of their term. The window is asked right before the
answer leaves. If it is over, or if the connection has ended by then, the messages are given back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

import msgspec

from api.port.problem import Problem
from node.peer_wire.connection import Reply
from node.port.group_frames import OPERATIONS, answer_frame, carry_out
from node.port.group_port import GroupPort
from node.port.pull_port import Deliveries, PullAsked, check_window, give_back
from node.port.refusal import Refusal

_log = logging.getLogger("hourwheel.calls")


class ServedGroup:
    """Carries out calls of other nodes. `port` returns the group, and raises a Problem while there is no group. `term`
    returns the newest term that the group knows of. `numbers` number all waits in this process. `now_s` is the
    machine's monotonic clock."""

    def __init__(
        self,
        port: Callable[[], GroupPort],
        term: Callable[[], int],
        numbers: Iterator[int],
        now_s: Callable[[], float],
    ) -> None:
        self._port, self._term, self._numbers, self._now_s = port, term, numbers, now_s

    async def answer(self, name: str, frame: bytes, full: Callable[[], bool]) -> Reply:
        """See connection.Serve."""
        if name not in OPERATIONS:
            return self._reply(Refusal("not-supported-yet", f"this node knows no call {name}; upgrade it"))
        if full():
            return self._reply(Refusal("busy", "this node reads its answers too slowly; try again"))
        try:
            port = self._port()
        except Problem as gone:
            return self._reply(Refusal.of(gone))
        if name != "pull":
            return self._reply(await carry_out(OPERATIONS[name].asked, getattr(port, name), frame))
        return await self._pull(port, frame, full)

    def _reply(self, answer: msgspec.Struct) -> Reply:
        return Reply(answer_frame(answer), self._term())

    async def _pull(self, port: GroupPort, frame: bytes, full: Callable[[], bool]) -> Reply:
        topic = ""

        async def pull(asked: PullAsked) -> Deliveries:
            nonlocal topic
            topic = asked.topic
            return await port.pull(msgspec.structs.replace(asked, number=next(self._numbers)), full)

        answer = await carry_out(PullAsked, pull, frame)
        if isinstance(answer, Refusal) or not cast(Deliveries, answer).bodies:
            return self._reply(answer)
        handed = cast(Deliveries, answer)
        answered = answer_frame(handed)

        def leaves() -> bytes:
            try:
                check_window(port, topic, handed, self._now_s())
            except Problem as late:
                return answer_frame(Refusal.of(late))
            return answered

        return Reply(answered, self._term(), leaves, partial(give_back, port, topic, handed))
