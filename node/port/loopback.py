"""The borders of a group with all that crosses them as bytes, within one process: the proof that it could be another.

What goes in is encoded, decoded and passed on; so is what comes back. The two sides share nothing but those bytes, and
the TrustWindow, which a page of shared memory can hold.
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
    """The push wire behind the codec. See Receivers."""

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
    """The group, with all that crosses as bytes."""
    return cast(GroupPort, LoopbackGroup(port))
