"""Values that nodes exchange around a change of leader, and that an operator sees of a drain.

They cross the service port like everything in `api.port.port`. A receipt proves that its sender may say how a delivery
ended: only nodes of the cluster and the consumer of the message have it.
"""

from typing import Final

import msgspec

#: The node that passed a request on, and the number of a pull there, by which it can be ended (`waits`).
FORWARDED: Final = "Hourwheel-Forwarded"
WAIT: Final = "Hourwheel-Wait"
#: Marks a pull that waits for nothing, even if its body asks for a wait: its client has closed its side.
ONCE: Final = "Hourwheel-Once"
#: Most outcomes in a request; each has a text of up to 1 KB.
OUTCOMES_MAX: Final = 1_000
#: Most open deliveries that a former leader names to its successor; 16 bytes each.
TOLD_MAX: Final = 32_768


class PushOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The outcome of a push that a former leader had on the wire.

    `code` is the HTTP status or a reason (node.settle.retry). `text` is from the receiver or the system.
    `retry_after_ms` is the wait that the receiver asked for.
    """

    receipt: str
    code: int
    text: str = ""
    retry_after_ms: int | None = None


class OpenHandOvers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Deliveries of `term` whose end their leader does not know; little endian columns of n rows."""

    term: int
    positions: bytes  # n * u64, in base64 on the wire
    lease_ends_ms: bytes  # n * i64, likewise


class TakeoverView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new leader's account of its takeover.

    - `ready_us`: the microseconds since the moment from which it could deliver.
    - `in_flight_carried`: the number of deliveries of earlier terms whose lease had not ended when its term began.
    - `repeated`: how many of these deliveries, and of those that the old leader named, it made again before their lease
      had ended.
    """

    node: str
    term: int
    ready_us: int
    in_flight_carried: int
    repeated: int


class DrainView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node after a drain, or after the drain was undone. `pushes` is the number of its pushes that are still on the
    wire. `leader` is the leader that it knows of, if any."""

    node: str
    draining: bool
    led: bool  # this node led when the request came
    leader: str | None
    pushes: int


class TransferResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A planned transfer of leadership. The last three are the new leader's account; None if none came. `gap_ms` is
    from the old leader's last possible delivery to the new leader's first. `repeated` counts ids delivered by both."""

    from_node: str
    to_node: str
    term_before: int
    term_after: int
    took_ms: int
    gap_ms: int | None = None
    in_flight_carried: int | None = None
    repeated: int | None = None
