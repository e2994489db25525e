"""The borders of a group with all that crosses them as bytes, within one process: the proof that it could be another.

What goes in is encoded, decoded and passed on; so is what comes back. The two sides share nothing but those bytes, and
the TrustWindow, which a page of shared memory can hold.

    front -- FramedGroup -- name, bytes --> GroupFrames -- group
                 '<------ answer or refusal, bytes -----'
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, cast, get_type_hints

import msgspec

from api.port.port import MessageIn
from api.port.problem import Problem
from node.port.codec import BadFrame, decode, encode
from node.port.draft import Draft, encode_draft
from node.port.group_port import GroupPort, GroupStatus
from node.port.message_port import Scheduled, ScheduledRow
from node.port.plain import BadColumns, Plain
from node.port.pull_port import Claims, Deliveries, Gone, PullAsked, claims_of, stays
from node.port.push_port import PushDone, PushWork, Receivers
from node.port.refusal import Refusal
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


class Nothing(Plain, frozen=True):
    """Of calls that ask, or are answered, no more than their name."""


class Operation(NamedTuple):
    """One call of GroupPort: what it is asked with, and what it answers."""

    asked: type[msgspec.Struct]
    answer: type[msgspec.Struct]


def _operations() -> dict[str, Operation]:
    found = {}
    for name, method in inspect.getmembers(GroupPort, inspect.iscoroutinefunction):
        hints = get_type_hints(method)
        answer = hints.pop("return")
        asked = next(iter(hints.values()), Nothing)
        found[name] = Operation(asked, Nothing if answer is type(None) else answer)
    found["schedule"] = Operation(Draft, Scheduled)
    found["schedule_one"] = Operation(Draft, ScheduledRow)
    return found


#: By name, as GroupPort has them.
OPERATIONS: Final = _operations()
_ANSWER, _REFUSAL = b"\0", b"\1"


class GroupFrames:
    """The group's side: calls come as bytes."""

    def __init__(self, port: GroupPort) -> None:
        self._port = port

    async def call(self, name: str, frame: bytes) -> bytes:
        """Carry out a call; its answer, or its refusal. What cannot be read is refused by type and field."""
        operation, method = OPERATIONS[name], getattr(self._port, name)
        try:
            asked = decode(operation.asked, frame)
            answer = await (method() if operation.asked is Nothing else method(asked))
        except Problem as problem:
            return _REFUSAL + encode(Refusal.of(problem))
        except (BadFrame, BadColumns) as bad:
            return _REFUSAL + encode(Refusal("internal", f"what came from another part of this node is wrong: {bad}"))
        try:
            return _ANSWER + encode(Nothing() if answer is None else answer)
        except BadFrame as bad:  # it is done, whatever it was
            return _REFUSAL + encode(Refusal("outcome-unknown", f"what it came to cannot be told: {bad}"))

    def end_wait(self, number: int) -> None:
        """See GroupPort."""
        self._port.end_wait(number)

    def give_back(self, frame: bytes) -> None:
        """See GroupPort."""
        self._port.give_back(decode(Claims, frame))


class FramedGroup:
    """A group behind the codec, in the loop of its front. `framed_group` makes one that is a GroupPort."""

    def __init__(self, port: GroupPort) -> None:
        self.number, self.window = port.number, port.window
        self._port, self._frames = port, GroupFrames(port)

    def attach(self, told: Callable[[GroupStatus], None]) -> None:
        """See GroupPort."""
        self._port.attach(lambda status: told(decode(GroupStatus, encode(status))))

    async def schedule(self, messages: Sequence[MessageIn] | Draft) -> Scheduled:
        """See MessagePort: messages cross as a draft."""
        draft = messages if isinstance(messages, Draft) else encode_draft(messages)
        return cast(Scheduled, await self._call("schedule", draft))

    async def schedule_one(self, message: MessageIn | Draft) -> ScheduledRow:
        """See MessagePort."""
        draft = message if isinstance(message, Draft) else encode_draft((message,))
        return cast(ScheduledRow, await self._call("schedule_one", draft))

    async def pull(self, asked: PullAsked, gone: Gone = stays) -> Deliveries:
        """See PullPort. Whether the client has gone does not cross: its front looks again."""
        calling = asyncio.ensure_future(self._call("pull", asked))
        try:
            return cast(Deliveries, await asyncio.shield(calling))
        except asyncio.CancelledError:
            self._frames.end_wait(asked.number)
            calling.add_done_callback(lambda ended: self._unwanted(asked.topic, ended))
            raise

    def _unwanted(self, topic: str, ended: asyncio.Future[msgspec.Struct]) -> None:
        """What a pull brought that nobody waits for."""
        if ended.cancelled() or ended.exception() is not None:
            return
        handed = ended.result()
        if isinstance(handed, Deliveries) and handed.bodies:
            self.give_back(Claims(topic, claims_of(handed)))

    def end_wait(self, number: int) -> None:
        """See PullPort."""
        self._frames.end_wait(number)

    def give_back(self, claims: Claims) -> None:
        """See PullPort."""
        self._frames.give_back(encode(claims))

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, msgspec.Struct | None]]:
        """All other calls are alike."""
        if name not in OPERATIONS:
            raise AttributeError(name)

        async def call(asked: msgspec.Struct | None = None) -> msgspec.Struct | None:
            answer = await self._call(name, Nothing() if asked is None else asked)
            return None if isinstance(answer, Nothing) else answer

        return call

    async def _call(self, name: str, asked: msgspec.Struct) -> msgspec.Struct:
        return read_answer(name, await self._frames.call(name, encode(asked)))


def read_answer(name: str, frame: bytes) -> msgspec.Struct:
    """What a call came to. Raises its Problem; BadFrame, or KeyError for a code that this build does not know."""
    if frame[:1] == _REFUSAL:
        raise decode(Refusal, frame[1:]).problem()
    return decode(OPERATIONS[name].answer, frame[1:])


def framed_group(port: GroupPort) -> GroupPort:
    """The group, with all that crosses as bytes."""
    return cast(GroupPort, FramedGroup(port))
