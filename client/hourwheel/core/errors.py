"""The errors of a request, by what its client knows: nothing was done, it was refused, or nobody can tell.

HourwheelError
    NotDone              nothing was done, and later or elsewhere it may be
        Unreachable      no connection came to be
        Unavailable      no leader, draining, busy, over a limit, disk full
    Refused              nothing was done, and the same again is refused again
        BadRequest       a field, a limit, a type
        Forbidden        the client may not do this
        NotFound         no such message, topic, node or route
        Conflict         its state does not allow it
    OutcomeUnknown       it may or may not have been done
"""

from collections.abc import Mapping
from enum import Enum
from typing import ClassVar, Final

from hourwheel.core.problem import Field, Problem


class Effect(Enum):
    """The effect of a failed request, as far as its client can know."""

    NONE = "nothing was done; it may be sent again"
    REFUSED = "nothing was done; the same is refused again"
    UNKNOWN = "it may or may not have been done"


class HourwheelError(Exception):
    """A request that did not succeed. `address` was asked, and `problem` is its answer, if there was one."""

    effect: ClassVar[Effect]

    def __init__(self, message: str, *, address: str = "", problem: Problem | None = None) -> None:
        super().__init__(message)
        self.address = address
        self.problem = problem

    @property
    def code(self) -> str:
        """The problem's code; empty without one."""
        return self.problem.code if self.problem else ""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields at fault."""
        return self.problem.fields if self.problem else ()

    @property
    def retry_after_s(self) -> float | None:
        """How long the node asks to wait; None where it says nothing."""
        return self.problem.retry_after_s if self.problem else None


class NotDone(HourwheelError):
    """Nothing was done. The same request may be done later, or by another node."""

    effect = Effect.NONE


class Unreachable(NotDone):
    """No connection could be made, so nothing was sent."""


class Unavailable(NotDone):
    """The node did nothing for now: no leader, draining, busy, over a limit, disk full."""


class Refused(HourwheelError):
    """The node refused the request; the same again is refused again. `code` and `fields` say why."""

    effect = Effect.REFUSED


class BadRequest(Refused):
    """A field, a limit, or a type of the request is wrong."""


class Forbidden(Refused):
    """The client has not said who it is, or may not do this."""


class NotFound(Refused):
    """There is no such message, topic, node or route."""


class Conflict(Refused):
    """The state of the message, topic or node that the request names does not allow it."""


class OutcomeUnknown(HourwheelError):
    """The request may or may not have been done: the answer says so, or the connection broke after it was sent."""

    effect = Effect.UNKNOWN


#: Each code of the API -> its error. tests/client compares it with the table of the server.
TYPES: Final[Mapping[str, type[HourwheelError]]] = {
    "malformed-json": BadRequest,
    "malformed-line": BadRequest,
    "malformed-request": BadRequest,
    "unauthenticated": Forbidden,
    "forbidden": Forbidden,
    "unknown-message": NotFound,
    "unknown-topic": NotFound,
    "unknown-schedule": NotFound,
    "unknown-node": NotFound,
    "unknown-operation": NotFound,
    "unknown-route": NotFound,
    "method-not-allowed": BadRequest,
    "request-timeout": BadRequest,
    "leased": Conflict,
    "already-settled": Conflict,
    "key-conflict": Conflict,
    "not-empty": Conflict,
    "change-in-progress": Conflict,
    "in-progress": Conflict,
    "not-caught-up": Conflict,
    "quorum-loss": Conflict,
    "revision-mismatch": Conflict,
    "too-large": BadRequest,
    "unsupported-media-type": BadRequest,
    "invalid-field": BadRequest,
    "key-reused": BadRequest,
    "unknown-field": BadRequest,
    "beyond-max-delay": BadRequest,
    "not-supported-yet": BadRequest,
    "revision-required": Conflict,
    "over-limit": Unavailable,
    "busy": Unavailable,
    "internal": OutcomeUnknown,
    "no-leader": Unavailable,
    "draining": Unavailable,
    "backup-failed": Unavailable,
    "disk-full": Unavailable,
    "outcome-unknown": OutcomeUnknown,
}


def type_of(status: int, code: str) -> type[HourwheelError]:
    """Return the class of the error for an answer that is no success.

    A code that is not known, from a newer server, is judged by its status. A 5xx without a known code may come from a
    proxy on the way, which does not know if the node did anything.
    """
    known = TYPES.get(code)
    if known is not None:
        return known
    if status >= 500:
        return OutcomeUnknown
    return Unavailable if status == 429 else Refused


def error_of(problem: Problem, address: str = "") -> HourwheelError:
    """Return the error for an answer that is no success. `address` gave the answer."""
    return type_of(problem.status, problem.code)(str(problem), address=address, problem=problem)


def unanswered(address: str, reason: str) -> OutcomeUnknown:
    """Return the error of a request that was sent and got no whole answer."""
    return OutcomeUnknown(f"{address} did not answer: {reason}", address=address)


def unreachable(address: str, reason: str) -> Unreachable:
    """Return the error of a request that was not sent, because there was no connection."""
    return Unreachable(f"cannot reach {address}: {reason}", address=address)
