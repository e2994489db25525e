"""The columns of a Fail: the fate of each hand-over that failed, decided row by row."""

from collections.abc import Iterable

import numpy as np

from node.port.failure_code import error_text
from node.settle.retry import Dead, Retry
from replication.command.handover import AGAIN, DEAD, RETRY, Fail
from storage.format.array import I64, U8, U16, U32, U64


class FailColumns:
    """Collects the fates of n failed hand-overs, one row for each, for one Fail. A message is given up with the code of
    its failure unless `note` says otherwise. A row whose hour was unlinked needs no decision, because the state machine
    answers it `invalid` anyway."""

    def __init__(self, code: U16) -> None:
        """`code` says why each hand-over failed, shape [n]. `note` changes the array."""
        self._code = code
        self._fate: U8 = np.full(len(code), DEAD, np.uint8)
        self._due_ms: I64 = np.zeros(len(code), np.int64)

    def note(self, row: int, decided: Retry | Dead, *, counts: bool = True) -> None:
        """Note the decision about a row. `counts` is False if the hand-over is not an attempt of its message."""
        if isinstance(decided, Dead):
            self._code[row] = decided.code
        else:
            self._fate[row], self._due_ms[row] = RETRY if counts else AGAIN, decided.due_ms

    def fail(self, position: U64, term: U32, attempt: U16, *, random: U64, said: Iterable[str] = ()) -> Fail:
        """Make the Fail. `random` has random bits for each row. `said` has the error text of each failure, or is
        empty."""
        return Fail(position, term, attempt, self._code, self._fate, self._due_ms, random, tuple(map(error_text, said)))
