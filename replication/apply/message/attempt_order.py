"""The order of hand-overs of a unit, and of rows of a command that name a unit more than once.

The fence is (term, attempt). A claim below the newest one in the log belongs to a hand-over that a later one replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from storage.format.array import U16, U64

Rows = npt.NDArray[np.intp]

_NO_ROWS: Rows = np.empty(0, np.intp)


class Round(NamedTuple):
    """Rows that name each unit once, and rows that say the very same of a unit as one of these."""

    rows: Rows
    repeats: Rows  # they get the result of ...
    repeated: Rows  # ... these, row by row


def fence(term: npt.NDArray[np.uint32] | np.uint32, attempt: U16) -> U64:
    """(term, attempt) as one number that compares in that order."""
    joined: U64 = (term.astype(np.uint64) << np.uint64(16)) | attempt.astype(np.uint64)
    return joined


def rounds(position: U64, claim: U64) -> Iterator[Round]:
    """All rows, in rounds. Each round takes the first row left of every unit, so a later row sees what an earlier one
    did.

    Rows with the claim of that first row are its repeats. So a request that names one receipt ten thousand times costs
    one round.
    """
    left = np.arange(len(position))
    while len(left):
        order, head = _grouped(position[left])
        if head.all():
            yield Round(left, _NO_ROWS, _NO_ROWS)
            return
        ranked = left[order]
        leader = ranked[head][head.cumsum() - 1]
        same = claim[ranked] == claim[leader]
        repeats = same & ~head
        yield Round(np.sort(ranked[head]), ranked[repeats], leader[repeats])
        left = np.sort(ranked[~same])


def first_of_each(position: U64) -> npt.NDArray[np.bool_]:
    """True where a position stands for the first time."""
    order, head = _grouped(position)
    if head.all():
        return head
    first = np.empty(len(position), bool)
    first[order] = head
    return first


def _grouped(position: U64) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """The rows by position, in order within each position, and a mask of the rows that begin a new position."""
    order = position.argsort(kind="stable")
    ranked = position[order]
    head = np.ones(len(order), bool)
    np.not_equal(ranked[1:], ranked[:-1], out=head[1:])
    return order, head
