"""The observations of a cluster from outside, one struct for each kind. chaos/history/inside_event.py has the rest.

A history is a list of these and nothing else. The checkers may not ask the cluster anything. So a verdict can be
repeated from the file, and a test can plant a fault by editing one event. `mono_ms` (monotonic, one process) orders
events. `wall_ms` (Unix epoch, floored) compares with the times that nodes write. That is sound because clients and
nodes share one machine's clock.
"""

from typing import Final, Literal

from chaos.history.answer_event import (
    Accounted,
    BackedUp,
    BatchAnswered,
    Counted,
    Gone,
    Kept,
    Looked,
    ManyCancelled,
    ManyMoved,
    Pulled,
    Recalled,
    Redriven,
    RequestAnswered,
    Standing,
    Summed,
    Wished,
)
from chaos.history.inside_event import (
    Applied,
    Begun,
    Crashed,
    Digest,
    Ended,
    Intruded,
    LeftOut,
    LevelAsked,
    ProcessEnded,
    Promoted,
    Proposal,
    Raised,
    SetBack,
    Settled,
    Sure,
)
from chaos.history.seen import Seen

__all__ = [
    "Accounted",
    "Acked",
    "Answered",
    "Applied",
    "BackedUp",
    "Begun",
    "RequestAnswered",
    "Cancelled",
    "Counted",
    "Crashed",
    "DeadLettered",
    "ProcessEnded",
    "Digest",
    "Ended",
    "Event",
    "Extended",
    "Fault",
    "Gone",
    "Nacked",
    "HandedOver",
    "Intruded",
    "Kept",
    "Led",
    "LeftOut",
    "LevelAsked",
    "Looked",
    "MANY",
    "ManyCancelled",
    "ManyMoved",
    "Offered",
    "Promoted",
    "Proposal",
    "Pulled",
    "Raised",
    "Recalled",
    "Redriven",
    "Rescheduled",
    "Seen",
    "SetBack",
    "Standing",
    "Settled",
    "Summed",
    "Sure",
    "Transferred",
    "BatchAnswered",
    "Wished",
]


class Offered(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A message is about to be sent for the first time. `number` is the workload's name for it, and its body. `once`:
    it is sent under an `Idempotency-Key`."""

    number: int
    keyed: bool
    asked_due_ms: int
    strict: bool = False
    topic: str = ""
    once: bool = False


class Answered(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The final outcome of an offer. `unknown` is no failure: the message may or may not come out. `sent_mono_ms` is
    when the last try was sent. `detail` is the code of a refusal, or `replayed` if an earlier try had the effect."""

    number: int
    node: str
    outcome: Literal["acknowledged", "refused", "unknown"]
    sent_mono_ms: float
    message_id: str = ""
    due_ms: int = 0
    detail: str = ""

    def written_after_ms(self, offered: Offered) -> float:
        """No request that may have written the message was sent before this moment."""
        again = offered.keyed or self.detail == "replayed"  # an earlier try may have had the effect
        return offered.mono_ms if again else self.sent_mono_ms


class HandedOver(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A consumer or receiver got a message.

    - `connection` names the consumer of one TCP connection. `response` counts its answers.
    - `status` is the receiver's answer to a webhook, 0 for a pull. At `gives_up_ms` the webhook's attempt timed out.
    - `handed_over_ms` is by the leader's clock. `begun_wall_ms` is the same moment by the observer's clock, 0 if the
      two clocks are one.
    - A webhook's `handed_over_ms` and `leased_until_ms` are 0 if no node's delivery log knows of it.
    - `by_receipt`: its node's account is gone. Only the receiver's record shows the hand-over, which may have begun
      earlier.
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
        """When the hand-over was made, by the observer's clock (that of `wall_ms`)."""
        return self.begun_wall_ms or self.handed_over_ms

    @property
    def pushed(self) -> bool:
        """True if the message came as a webhook, False if by a pull."""
        return self.status > 0

    @property
    def taken(self) -> bool:
        """True if the receiver took the message, and always for a pull. A failed webhook has to come again."""
        return self.status < 300


class Acked(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to an ack. `result` is `acked`, `stale`, `invalid`, `refused` (nothing was done), or `unknown` (no
    answer)."""

    number: int
    message_id: str
    term: int
    attempt: int
    result: str
    asked_wall_ms: int = 0


class Nacked(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a nack. `result` is `nacked`, or `stale`, `invalid`, `refused` or `unknown` as for an ack."""

    number: int
    message_id: str
    term: int
    attempt: int
    result: str
    asked_wall_ms: int


class Extended(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a request that a lease ends `lease_ms` after the request. `result` is `extended`, `stale`,
    `invalid`, or `unknown`."""

    number: int
    message_id: str
    term: int
    attempt: int
    result: str
    asked_wall_ms: int
    lease_ms: int


class DeadLettered(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A message that was given up came from the dead-letter topic as a copy, `letter_id`."""

    number: int
    message_id: str
    letter_id: str
    reason: str


class Cancelled(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a cancel: `cancelled`, `refused` (409), or `unknown`. If cancelled, `attempts_made` counts the
    attempts on record. `prior` says if there were others: `none` and `known` say that there were not, `unknown` that
    there may have been."""

    number: int
    message_id: str
    outcome: Literal["cancelled", "refused", "unknown"]
    asked_wall_ms: int
    prior: str = ""
    attempts_made: int = 0
    detail: str = ""


MANY: Final = "many"
"""The `detail` of a reschedule that stands for a message of an operation which moves many."""


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
    """A node said that it leads this term."""

    term: int
    leader: str


class Fault(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A fault on a node begins or ends. `role` is the node's role at the begin. A fault of links has the plan's target
    for a node (`n1>n2`, `n1|n2,n3`). `detail` has the fault's arguments, as in its plan."""

    kind: str  # of a plan
    node: str
    role: Literal["leader", "follower"]
    phase: Literal["begin", "end"]
    detail: str = ""

    def argument(self, name: str, default: float) -> float:
        """Return a number among the arguments, or the default."""
        arguments = dict(each.split("=", 1) for each in self.detail.split() if "=" in each)
        return float(arguments.get(name, default))


class Transferred(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a transfer: leadership of `term_before` went from `source` to `target`. `asked` is empty if the
    client asked for the best node. The last three fields are from the answer. A transfer is no fault: it excuses
    nothing."""

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
    """A step held a node's loop for `held_ms`, by the charges for its work. `by` has each kind of work with its ms, the
    dearest first. `lazy_keys`: at the node's level an entry drops a few keys of an unlinked hour, not all."""

    node: str
    held_ms: float
    by: tuple[tuple[str, float], ...]
    lazy_keys: bool = True


Event = (
    Offered
    | Answered
    | HandedOver
    | Acked
    | Nacked
    | Extended
    | DeadLettered
    | Cancelled
    | Rescheduled
    | Looked
    | Accounted
    | Redriven
    | Pulled
    | Kept
    | BatchAnswered
    | RequestAnswered
    | Wished
    | Counted
    | Summed
    | ManyCancelled
    | ManyMoved
    | Standing
    | Gone
    | BackedUp
    | Recalled
    | Led
    | Fault
    | Transferred
    | Begun
    | Ended
    | Crashed
    | ProcessEnded
    | Proposal
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
