"""Remembers, as far as memory allows, which ends of hand-overs this node has written to the delivery log.

A late or repeated ack changes nothing, so a client may send the same thousand acks for ever. If each of them wrote a
row, they would fill the disk. The ledger of their hour would have more rows than it can read.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from node.port.receipt import ReceiptColumns
from storage.format.array import U64

_SLOT_BITS: Final = 20
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 by the golden ratio: Fibonacci hashing, Knuth 6.4
_TERM: Final = np.uint64(0xD6E8FEB86659FD93)
_ATTEMPT: Final = np.uint64(0xA0761D6478BD642F)


class LoggedEnds:
    """A table of a million cells. A hash of each end (hand-over and outcome) is kept in the cell that the hash names.
    The table has 8 MB, of which the kernel gives only pages that are touched. If two ends share a cell, the newer
    replaces the older one, and both may be written to the log again."""

    def __init__(self) -> None:
        self._marks: U64 = np.zeros(1 << _SLOT_BITS, np.uint64)

    def first(self, named: ReceiptColumns, outcome: int) -> npt.NDArray[np.bool_]:
        """True, shape [n], where this outcome of the hand-over is not remembered yet. All n are remembered from now
        on."""
        marks = named.position * _SPREAD + named.term * _TERM + named.attempt * _ATTEMPT + np.uint64(outcome + 1)
        slots = marks >> np.uint64(64 - _SLOT_BITS)
        news: npt.NDArray[np.bool_] = self._marks[slots] != marks
        self._marks[slots] = marks
        return news
