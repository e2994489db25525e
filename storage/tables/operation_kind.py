"""The kinds of operations, one row each: which messages a kind takes, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from storage.format.registry import BadRow
from storage.format.rows import CODE_REDRIVEN, CODE_RESCHEDULED, CODE_RESENT
from storage.format.states import DEAD, DELIVERED, OPEN_STANDINGS, STATES

CODE_MAX: Final = 0xFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationKind:
    """A kind of operation.

    - `name`: as clients send it.
    - `ended_as`: the state of the ended messages that it takes. None: it takes open messages.
    - `code`: of the settle records of its moves (replication/apply/message/move.py). None: it ends its messages.
    """

    name: str
    ended_as: int | None = None
    code: int | None = None

    @property
    def takes_open(self) -> bool:
        """True if its messages are open."""
        return self.ended_as is None

    @property
    def moves(self) -> bool:
        """True if its messages get another due time, and another place."""
        return self.code is not None

    @property
    def standings(self) -> frozenset[int]:
        """The numbers of STANDINGS (storage/format/states.py) under which its messages are counted."""
        return frozenset(OPEN_STANDINGS) if self.ended_as is None else frozenset((self.ended_as,))


def registered(rows: Iterable[OperationKind]) -> dict[str, OperationKind]:
    """The rows by name. Raises BadRow."""
    found: dict[str, OperationKind] = {}
    for row in rows:
        if row.name in found:
            raise BadRow(f"operation {row.name} stands here twice")
        if row.ended_as is not None and STATES[row.ended_as].answers.lives_here:
            raise BadRow(f"operation {row.name} takes ended messages in a state that is no end")
        if row.code is None and not row.takes_open:
            raise BadRow(f"operation {row.name} would end what has ended")
        if row.code is not None and not CODE_RESCHEDULED <= row.code <= CODE_MAX:
            raise BadRow(f"operation {row.name}: codes below 2000 are of failures")
        found[row.name] = row
    return found


CANCEL: Final = "cancel"
RESEND: Final = "resend"

OPERATION_KINDS: Final = registered(
    [
        OperationKind(name=CANCEL),
        OperationKind(name="shift", code=CODE_RESCHEDULED),
        OperationKind(name="release", code=CODE_RESCHEDULED),
        OperationKind(name="redrive", ended_as=DEAD, code=CODE_REDRIVEN),
        OperationKind(name=RESEND, ended_as=DELIVERED, code=CODE_RESENT),
    ]
)
