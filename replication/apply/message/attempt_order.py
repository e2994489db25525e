"""The order of hand-overs of a unit, and of rows of a command that name a unit more than once.

A hand-over is named by (term, attempt). The fence refuses a row that names an older hand-over than the log has for the
unit, because a later one replaced it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from replication.command.column import Rows
from storage.format.array import U16, U64

_NO_ROWS: Rows = np.empty(0, np.intp)


class Round(NamedTuple):
    """Rows of one command that may be applied together. `rows` name each message at most one time. Each of `repeats`
    has the same message and the same claim as one of `rows`.
    """

    rows: Rows
    repeats: Rows
    repeated: Rows  # for each of `repeats`, the row of `rows` whose result it gets


def fence(term: npt.NDArray[np.uint32] | np.uint32, attempt: U16) -> U64:
    """Join term and attempt into one number per row, [n]. A later hand-over of a unit has a larger number."""
    joined: U64 = (term.astype(np.uint64) << np.uint64(16)) | attempt.astype(np.uint64)
    return joined


def rounds(position: U64, claim: U64) -> Iterator[Round]:
    """Divide all rows of a command into rounds. The caller applies one round after the other.

    `position` says which message a row names. `claim` is a number for what else the row says, such as its hand-over.
    Each round takes the first row of every message that has rows left. So a message's second row sees what its first
    one did. Rows with the same `claim` as that first row are its repeats, in the same round. So a request that names
    one receipt ten thousand times costs one round.
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
    """A boolean array, [n]: True for the first row of each position."""
    order, head = _grouped(position)
    if head.all():
        return head
    first = np.empty(len(position), bool)
    first[order] = head
    return first


def _grouped(position: U64) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """The row numbers sorted by position, and a boolean array that is True where a new position begins in that order.

    Rows of one position keep their order.
    """
    order = position.argsort(kind="stable")
    ranked = position[order]
    head = np.ones(len(order), bool)
    np.not_equal(ranked[1:], ranked[:-1], out=head[1:])
    return order, head
