"""Groups rows by a key, such as their topic or the end of their lease. Callers then take one step a key, not one a
row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Key = TypeVar("Key", np.uint32, np.int64)
Rows = npt.NDArray[np.intp] | slice


def rows_by(keys: npt.NDArray[Key]) -> Iterator[tuple[int, Rows]]:
    """Yield (key, rows) for each distinct key of `keys`, shape [n], rising. `rows` are those with the key, in order."""
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
