"""Checks that the forwards of all hours and the moved units of all hours agree, pair by pair."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from storage.format.array import U64
from storage.format.position import INDEX_BITS, INDEX_MAX

_TOLD_MAX: Final = 100
"""Messages that are reported one by one. The rest are counted."""


def move_faults(forwarded: Sequence[U64], arrived: Sequence[U64]) -> list[str]:
    """A line for each forward without its moved unit, and for each moved unit without its forward. Both arguments are
    parts of pairs (home, place), [n, 2] each.

    A forward must lead to an open unit of its message. The home of an open moved unit must lead to it.
    """
    away, here = _sorted(forwarded), _sorted(arrived)
    if np.array_equal(away, here):
        return []
    led, lives = set(map(tuple, away.tolist())), set(map(tuple, here.tolist()))
    faults = [
        f"corrupt: {_name(home, 'settle')} is forwarded to {_name(place, 'index')}, where it is not open"
        for home, place in sorted(led - lives)
    ] + [
        f"corrupt: {_name(place, 'index')} is open, and its home {_name(home, 'settle')} does not lead to it"
        for home, place in sorted(lives - led)
    ]
    if len(faults) > _TOLD_MAX:
        faults[_TOLD_MAX:] = [f"corrupt: {len(faults) - _TOLD_MAX} more messages are not where their homes say"]
    return faults


def _sorted(parts: Sequence[U64]) -> U64:
    pairs = np.concatenate([np.empty((0, 2), np.uint64), *parts])
    ordered: U64 = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return ordered


def _name(position: int, file: str) -> str:
    return f"{position >> INDEX_BITS}/{file} unit {position & INDEX_MAX}"
