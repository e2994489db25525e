"""Rows of equal key, with one step per key. So columns are spread over topics and ends of leases without a step per
row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Key = TypeVar("Key", np.uint32, np.int64)
Rows = npt.NDArray[np.intp] | slice


def rows_by(keys: npt.NDArray[Key]) -> Iterator[tuple[int, Rows]]:
    """Yield (key, its rows in their order) for each distinct key of `keys`, shape [n], rising."""
    if not len(keys):
        return
    if not (keys != keys[0]).any():
        yield int(keys[0]), slice(None)
        return
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    cuts: list[int] = (np.flatnonzero(ranked[1:] != ranked[:-1]) + 1).tolist()
    for start, end in zip([0, *cuts], [*cuts, len(order)], strict=True):
        yield int(ranked[start]), order[start:end]
