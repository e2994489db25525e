"""A group behind its codec within one process: proof that it could run in another process.

Each argument is encoded, decoded and passed on, and so is each answer. The two sides share only those bytes and the
TrustWindow. The TrustWindow is so small that a page of shared memory could hold it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from node.port.codec import decode, encode
from node.port.group_frames import FramedGroup, GroupFrames
from node.port.group_port import GroupPort, GroupStatus
from node.port.push_port import PushDone, PushWork, Receivers
from node.port.trust_window import TrustWindow


class FramedReceivers:
    """The push wire behind the codec. Implements Receivers."""

    def __init__(self, wire: Receivers) -> None:
        self._wire = wire

    def attach(self, group: int, window: TrustWindow, done: Callable[[PushDone], None]) -> None:
        """See Receivers."""
        self._wire.attach(group, window, lambda told: done(decode(PushDone, encode(told))))

    def detach(self, group: int) -> None:
        """See Receivers."""
        self._wire.detach(group)

    def send(self, work: PushWork) -> None:
        """See Receivers. Raises BadFrame."""
        self._wire.send(decode(PushWork, encode(work)))


class LoopbackGroup(FramedGroup):
    """A group behind the codec, in the loop of its front."""

    def __init__(self, port: GroupPort) -> None:
        super().__init__(port.number, port.window, GroupFrames(port))
        self._port = port

    def attach(self, told: Callable[[GroupStatus], None]) -> None:
        """See GroupPort."""
        self._port.attach(lambda status: told(decode(GroupStatus, encode(status))))


def framed_group(port: GroupPort) -> GroupPort:
    """Return the group behind the codec: all calls and answers cross as bytes."""
    return cast(GroupPort, LoopbackGroup(port))
