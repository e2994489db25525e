"""The reasons why an open unit is not handed over though it is due and a consumer would take it. One row a reason.

Two cases need no reason. A unit under a running lease is with a consumer already. A unit that is due behind others in
its window is handed over after them.

Numbers up to 15 are of reasons that a client or an operator gives. Those from 16 on are of the leader's own work.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from storage.format.registry import BadRow, by_number

NUMBER_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class HoldReason:
    """A reason why a due unit is held.

    - `number`: never used again for another reason.
    - `replicated`: True if any node knows the reason from its applied state. Otherwise only the leader knows it, in
      memory, and the next leader begins without it.
    - `words`: the reason as people read it.
    """

    number: int
    name: str
    replicated: bool
    words: str


def registered(rows: Iterable[HoldReason]) -> dict[str, HoldReason]:
    """The rows by name, in their order. Raises BadRow."""
    found = by_number("hold reason", rows, range(1, NUMBER_MAX + 1))
    for row in found.values():
        if not row.words:
            raise BadRow(f"hold reason {row.name} has no words for people")
        if not isinstance(row.replicated, bool):
            raise BadRow(f"hold reason {row.name} does not say whether it is replicated")
    return {row.name: row for row in found.values()}


HOLD_REASONS: Final = registered(
    [
        HoldReason(1, "pause", True, "its topic is paused"),
        HoldReason(2, "restored", True, "it was overdue when the cluster was restored, and is given up"),
        HoldReason(3, "operation", True, "an operation that runs is about to change it"),
        HoldReason(4, "breaker", False, "its receiver fails, or is on trial: attempts to it are few"),
        HoldReason(5, "limit", False, "as many pushes as may be are on their way, to its receiver or in all"),
        HoldReason(16, "command", False, "a command that ends or moves it is on its way"),
        HoldReason(17, "attempts", False, "it was tried as often as its policy allows; its end is on its way"),
        HoldReason(18, "release", False, "its lease was taken back, and the log does not say so yet"),
        HoldReason(19, "strict", False, "it is strict, and its lease is not committed yet"),
        HoldReason(20, "commit", False, "the oldest hand-over that is not committed is 50 ms old"),
        HoldReason(21, "pace", False, "it was overdue when this leader began; so much of that goes out a second"),
        HoldReason(22, "clock", False, "the leader's clock has gone back before its due time"),
        HoldReason(23, "trust", False, "the leader is not sure to lead, or gives that away"),
    ]
)
