"""A group's border as bytes: the calls of GroupPort by name, made on one side and carried out on the other.

    front -- FramedGroup -- name, bytes --> Frames ... GroupFrames -- group
                 '<------ answer or refusal, bytes ------'

Frames and GroupFrames are in one process (loopback.py), or two nodes with a connection between them (node/peer_wire).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, Protocol, cast, get_type_hints

import msgspec

from api.port.port import MessageIn
from api.port.problem import Problem
from node.port.codec import BadFrame, decode, encode
from node.port.draft import Draft, encode_draft
from node.port.group_port import GroupPort
from node.port.message_port import Scheduled, ScheduledRow
from node.port.plain import BadColumns, Plain
from node.port.pull_port import Claims, Deliveries, Gone, PullAsked, claims_of, stays
from node.port.refusal import Refusal
from node.port.trust_window import TrustWindow

_log = logging.getLogger("hourwheel.calls")

VERSIONS: Final = (2, 2)
"""Oldest and newest version of what crosses between nodes that this build reads. Version 2 has what operations, lists
and keys that change their holders need. A node passes requests on as HTTP to a node of another version."""


class Nothing(Plain, frozen=True):
    """A placeholder: the argument of a call that takes no argument, and the answer of a call that returns None."""


class Operation(NamedTuple):
    """A call of GroupPort: the types of its argument and of its answer."""

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


#: The calls by name, as GroupPort has them.
OPERATIONS: Final = _operations()
#: Calls that change nothing. If the answer to one is lost, the client may ask again, so it is no `outcome-unknown`.
READS: Final = frozenset(
    (
        "message",
        "messages",
        "topic",
        "topics",
        "count",
        "histogram",
        "wheel",
        "dead",
        "operation",
        "operations",
        "ledger",
        "ledger_summary",
        "message_ledger",
    )
) | {"records", "cluster", "ready", "metrics"}
assert OPERATIONS.keys() >= READS, READS - OPERATIONS.keys()
_ANSWER, _REFUSAL = b"\0", b"\1"


class Frames(Protocol):
    """Carries calls to a group: to the one on this node, or to the one on the leader."""

    async def call(self, name: str, frame: bytes, wait: int) -> bytes:
        """Make the call `name` with the argument in `frame`. Return the frame of its answer or refusal. `wait`: a
        number by which `end_wait` can end the call, 0 for none."""

    def end_wait(self, wait: int) -> None:
        """End the wait of the call with this number. Messages that the call brings nevertheless are given back."""

    def give_back(self, frame: bytes) -> None:
        """See PullPort."""


class GroupFrames:
    """The group's side: carries out the calls that come as bytes. Implements Frames."""

    def __init__(self, port: GroupPort) -> None:
        self._port = port

    async def call(self, name: str, frame: bytes, wait: int) -> bytes:
        """See Frames."""
        operation, method = OPERATIONS[name], getattr(self._port, name)
        return answer_frame(await carry_out(operation.asked, method, frame))

    def end_wait(self, wait: int) -> None:
        """See Frames."""
        self._port.end_wait(wait)

    def give_back(self, frame: bytes) -> None:
        """See Frames."""
        self._port.give_back(decode(Claims, frame))


async def carry_out(kind: type[msgspec.Struct], method: Callable[..., Awaitable[Any]], frame: bytes) -> msgspec.Struct:
    """Carry out a call: decode its argument, of type `kind`, and call `method`. Return its answer, or a Refusal. A
    frame that cannot be read is refused, and the refusal names type and field. An exception of the group becomes the
    refusal `internal`."""
    try:
        asked = decode(kind, frame)
        answer = await (method() if kind is Nothing else method(asked))
    except Problem as problem:
        return Refusal.of(problem)
    except (BadFrame, BadColumns) as bad:
        return Refusal("internal", f"what came from another part of the cluster is wrong: {bad}")
    except Exception:
        _log.exception("a call with %s failed", kind.__name__)
        return Refusal("internal", "see the log of the node that was to do it")
    return Nothing() if answer is None else cast(msgspec.Struct, answer)


def answer_frame(answer: msgspec.Struct) -> bytes:
    """Encode an answer or a refusal. An answer that cannot be encoded becomes the refusal `outcome-unknown`."""
    if isinstance(answer, Refusal):
        return _REFUSAL + encode(answer)
    try:
        return _ANSWER + encode(answer)
    except BadFrame as bad:  # the call is done, whatever its answer was
        return _REFUSAL + encode(Refusal("outcome-unknown", f"what it came to cannot be told: {bad}"))


class FramedGroup:
    """A group that is asked in bytes: its callers see a GroupPort without `attach`.

    Hand-overs that it returns may go on to the client only within `window`, the trust window. Most calls have no method
    here: `__getattr__` makes them from their name.
    """

    def __init__(self, number: int, window: TrustWindow, frames: Frames) -> None:
        self.number, self.window, self._frames = number, window, frames

    async def schedule(self, messages: Sequence[MessageIn] | Draft) -> Scheduled:
        """See MessagePort. Messages are encoded as a draft here."""
        draft = messages if isinstance(messages, Draft) else encode_draft(messages)
        return cast(Scheduled, await self._call("schedule", draft))

    async def schedule_one(self, message: MessageIn | Draft) -> ScheduledRow:
        """See MessagePort."""
        draft = message if isinstance(message, Draft) else encode_draft((message,))
        return cast(ScheduledRow, await self._call("schedule_one", draft))

    async def pull(self, asked: PullAsked, gone: Gone = stays) -> Deliveries:
        """See PullPort. The function `gone` cannot cross as bytes, so it is not called here. The front calls it when
        the answer is here."""
        calling = asyncio.ensure_future(self._call("pull", asked, asked.number))
        try:
            return cast(Deliveries, await asyncio.shield(calling))
        except asyncio.CancelledError:
            self._frames.end_wait(asked.number)
            calling.add_done_callback(lambda ended: self._unwanted(asked.topic, ended))
            raise

    def _unwanted(self, topic: str, ended: asyncio.Future[msgspec.Struct]) -> None:
        """Give back the messages that a pull brought after its client went away."""
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
        """Return a function that makes the call `name`. The function takes the call's argument, if the call has one."""
        if name not in OPERATIONS:
            raise AttributeError(name)

        async def call(asked: msgspec.Struct | None = None) -> msgspec.Struct | None:
            answer = await self._call(name, Nothing() if asked is None else asked)
            return None if isinstance(answer, Nothing) else answer

        return call

    async def _call(self, name: str, asked: msgspec.Struct, wait: int = 0) -> msgspec.Struct:
        return read_answer(name, await self._frames.call(name, encode(asked), wait))


def refusal_of(frame: bytes) -> Refusal | None:
    """Return the refusal in a frame, None if it is an answer. Raises BadFrame."""
    return decode(Refusal, frame[1:]) if frame[:1] == _REFUSAL else None


def read_answer(name: str, frame: bytes) -> msgspec.Struct:
    """Return the answer in a frame. Raises the Problem of a refusal, and `outcome-unknown` if it cannot be read."""
    try:
        refusal = refusal_of(frame)
        if refusal is None:
            return decode(OPERATIONS[name].answer, frame[1:])
    except BadFrame as bad:
        raise Problem("outcome-unknown", f"what it came to cannot be read: {bad}") from None
    raise refusal.problem()
