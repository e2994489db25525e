"""What can be seen of a cluster from outside, one struct per kind of observation; chaos/history/inside_event.py has the
rest.

A history is a list of these and nothing else: the checkers may not ask the cluster anything, so a verdict can be
repeated from the file and a test can plant a fault by editing one event. `mono_ms` (monotonic, one process) orders
events; `wall_ms` (Unix epoch, floored) compares with the times that nodes write, which is sound because clients and
nodes share one machine's clock.
"""

from typing import Literal

from chaos.history.inside_event import (
    Applied,
    Begun,
    Crashed,
    Digest,
    Ended,
    Intruded,
    LeftOut,
    LevelAsked,
    Promoted,
    Raised,
    SetBack,
    Settled,
    Sure,
)
from chaos.history.seen import Seen
from chaos.history.told_event import Accounted, BackedUp, Counted, Kept, Looked, Pulled, Recalled, Redriven, Summed

__all__ = [
    "Accounted",
    "Acked",
    "Answered",
    "Applied",
    "BackedUp",
    "Begun",
    "Cancelled",
    "Counted",
    "Crashed",
    "DeadLettered",
    "Digest",
    "Ended",
    "Event",
    "Extended",
    "Fault",
    "GaveBack",
    "HandedOver",
    "Intruded",
    "Kept",
    "Led",
    "LeftOut",
    "LevelAsked",
    "Looked",
    "Offered",
    "Promoted",
    "Pulled",
    "Raised",
    "Recalled",
    "Redriven",
    "Rescheduled",
    "Seen",
    "SetBack",
    "Settled",
    "Summed",
    "Sure",
    "Transferred",
]


class Offered(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A message is about to be sent for the first time; `number` is the workload's own name for it, and its body."""

    number: int
    keyed: bool
    asked_due_ms: int
    strict: bool = False
    topic: str = ""


class Answered(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The final outcome of an offer. `unknown` is no failure: the message may or may not come out. `sent_mono_ms`: the
    last try's sending.
    """

    number: int
    node: str
    outcome: Literal["acknowledged", "refused", "unknown"]
    sent_mono_ms: float
    message_id: str = ""
    due_ms: int = 0
    detail: str = ""


class HandedOver(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A message received by a consumer. `connection` names one TCP connection's consumer, `response` counts its
    answers. `status` is what a webhook was answered with, 0 for a pull; a webhook's `handed_over_ms` and
    `leased_until_ms` are 0 where no node's delivery log knows of it; at `gives_up_ms` its attempt timed out.
    `handed_over_ms` is by the leader's clock; `begun_wall_ms` is the same moment by the observer's, 0 where the two
    are one. `by_receipt`: its node's account is gone, so that it began is known by its receipt alone, and may have been
    before.
    """

    number: int
    message_id: str
    term: int
    attempt: int
    due_ms: int
    asked_due_ms: int
    handed_over_ms: int
    leased_until_ms: int
    node: str
    connection: str
    response: int
    status: int = 0
    gives_up_ms: int = 0
    begun_wall_ms: int = 0
    by_receipt: bool = False

    @property
    def began_ms(self) -> int:
        """When the hand-over was made, by the clock that `wall_ms` is of."""
        return self.begun_wall_ms or self.handed_over_ms

    @property
    def pushed(self) -> bool:
        """Whether it came as a webhook."""
        return self.status > 0

    @property
    def taken(self) -> bool:
        """Whether its receiver took it: a failed webhook is to come again."""
        return self.status < 300


class Acked(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to an ack; `result` is `acked`, `stale`, `invalid`, `refused` where it says that nothing was done, or
    `unknown` when none came."""

    number: int
    message_id: str
    term: int
    attempt: int
    result: str
    asked_wall_ms: int = 0


class GaveBack(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a nack; `result` is `nacked`, or as an ack's."""

    number: int
    message_id: str
    term: int
    attempt: int
    result: str
    asked_wall_ms: int


class Extended(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to an extension to `lease_ms` from then; `result` is `extended`, `stale`, `invalid`, or `unknown`."""

    number: int
    message_id: str
    term: int
    attempt: int
    result: str
    asked_wall_ms: int
    lease_ms: int


class DeadLettered(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A message that was given up came as a copy of its own, `letter_id`, from the dead-letter topic."""

    number: int
    message_id: str
    letter_id: str
    reason: str


class Cancelled(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a cancel: `cancelled` with `prior` and `attempts_made`, `refused` (409), or `unknown`."""

    number: int
    message_id: str
    outcome: Literal["cancelled", "refused", "unknown"]
    asked_wall_ms: int
    prior: str = ""
    attempts_made: int = 0
    detail: str = ""


class Rescheduled(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a reschedule: `moved` to `due_ms`, `refused` (409), or `unknown`."""

    number: int
    message_id: str
    outcome: Literal["moved", "refused", "unknown"]
    asked_wall_ms: int
    due_ms: int = 0
    revision: int = 0
    detail: str = ""


class Led(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node said of itself that it leads this term."""

    term: int
    leader: str


class Fault(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A fault put on a node begins or is over. `role` is what the node was when it began. What is done to links has
    the plan's target for a node (`n1>n2`, `n1|n2,n3`); `detail` are the fault's arguments, as its plan has them.
    """

    kind: str  # of a plan
    node: str
    role: Literal["leader", "follower"]
    phase: Literal["begin", "end"]
    detail: str = ""

    def argument(self, name: str, default: float) -> float:
        """A number; the default where it has none of that name."""
        arguments = dict(each.split("=", 1) for each in self.detail.split() if "=" in each)
        return float(arguments.get(name, default))


class Transferred(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a transfer: leadership of `term_before` went from `source` to `target`. `asked` is empty where the
    best was asked for; the last three are what the answer says of itself. No fault: it excuses nothing.
    """

    source: str
    target: str
    asked: str
    term_before: int
    term_after: int
    took_ms: int
    gap_ms: int | None = None
    in_flight_carried: int | None = None
    repeated: int | None = None


class Held(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A step held a node's loop for so long, by what it was charged; `by` names what for, ms, the dearest first.
    `lazy_keys`: whether the node's level is one at which the keys of an unlinked hour go a few with each entry."""

    node: str
    held_ms: float
    by: tuple[tuple[str, float], ...]
    lazy_keys: bool = True


Event = (
    Offered
    | Answered
    | HandedOver
    | Acked
    | GaveBack
    | Extended
    | DeadLettered
    | Cancelled
    | Rescheduled
    | Looked
    | Accounted
    | Redriven
    | Pulled
    | Kept
    | Counted
    | Summed
    | BackedUp
    | Recalled
    | Led
    | Fault
    | Transferred
    | Begun
    | Ended
    | Crashed
    | Intruded
    | LeftOut
    | LevelAsked
    | Raised
    | SetBack
    | Settled
    | Applied
    | Sure
    | Promoted
    | Digest
    | Held
)
