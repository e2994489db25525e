"""What nodes tell each other around a change of leader, and what an operator is told of a drain: plain values.

These cross the service port like everything in `api.port.port`. Receipts prove what is said of a hand-over: only nodes
of the cluster, and whoever was handed the message, have them.
"""

from typing import Final

import msgspec

#: The node that passed a request on; and the number that a pull has there, by which it can be ended (`waits`).
FORWARDED: Final = "Hourwheel-Forwarded"
WAIT: Final = "Hourwheel-Wait"
#: A pull that waits for nothing, whatever its body says: its client has closed its side.
ONCE: Final = "Hourwheel-Once"
#: Most outcomes one request may carry; each has a text of up to 1 KB.
OUTCOMES_MAX: Final = 1_000
#: Most hand-overs a former leader tells its successor of; 16 bytes each.
TOLD_MAX: Final = 32_768


class PushOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """What became of one push that a former leader had on the wire. `code` is the HTTP status or a reason
    (node.settle.retry), `text` what the receiver or the system said, `retry_after_ms` the wait the receiver asked for.
    """

    receipt: str
    code: int
    text: str = ""
    retry_after_ms: int | None = None


class OpenHandOvers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hand-overs of `term` that its leader made and knows of no end of; little endian columns of n rows."""

    term: int
    positions: bytes  # n * u64, in base64 on the wire
    lease_ends_ms: bytes  # n * i64, likewise


class TakeoverView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new leader's account of what it took over. `ready_us`: how long ago it could hand something over first."""

    node: str
    term: int
    ready_us: int
    in_flight_carried: int
    repeated: int


class DrainView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node after a drain, or its undoing. `pushes` are still on the wire; `leader` as far as known."""

    node: str
    draining: bool
    led: bool  # it led when it was asked
    leader: str | None
    pushes: int
