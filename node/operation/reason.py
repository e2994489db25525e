"""The reasons of death by which a redrive chooses messages."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from node.port.failure_code import REASONS, RESTORED
from storage.format.array import U16, Mask
from storage.format.states import DEAD
from storage.query.ended_members import Codes
from storage.tables.operation_row import OperationRow

_HTTP: Final = re.compile(r"http-([1-5][0-9][0-9])")
_CODES: Final = {word: code for code, word in REASONS.items()}

#: Who asks for no reason does not mean messages that were given up on purpose.
LEFT_OUT: Final = (RESTORED,)


def code_of(reason: str) -> int | None:
    """The code of a reason, None for a word that is none."""
    status = _HTTP.fullmatch(reason)
    return int(status[1]) if status else _CODES.get(reason)


def wanted_codes(row: OperationRow) -> Codes:
    """The test of the codes by which messages of a set ended."""
    if row.rule.ended_as != DEAD:
        return lambda codes: np.ones(len(codes), np.bool_)
    if row.reason is None:
        return lambda codes: ~np.isin(codes, LEFT_OUT)
    return _only(code_of(row.reason))


def _only(code: int | None) -> Codes:
    def wanted(codes: U16) -> Mask:
        same: Mask = codes == (-1 if code is None else code)
        return same

    return wanted
