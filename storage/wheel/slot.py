"""The columns of units on their way from the records through the wheel to the ready windows.

They are columns because a slot may hold a million units. So nothing on that way may cost Python work per message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U8, U32, U64


@dataclass(frozen=True, slots=True, eq=False)
class DueUnits:
    """A row per unit, in dispatch order: by due_ms, within a millisecond by arrival. All arrays have shape [n].

    Within one second, local_index and position both are in order of arrival, since both count appends.
    """

    due_ms: I64
    position: U64
    topic: U32
    tags: U64
    priority: U8

    def __len__(self) -> int:
        return len(self.position)

    @classmethod
    def empty(cls) -> DueUnits:
        """Columns without units."""
        return cls(
            np.empty(0, np.int64),
            np.empty(0, np.uint64),
            np.empty(0, np.uint32),
            np.empty(0, np.uint64),
            np.empty(0, np.uint8),
        )

    @classmethod
    def joined(cls, parts: list[DueUnits]) -> DueUnits:
        """Join several DueUnits into one, one behind the other."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.empty()
        return cls(
            np.concatenate([part.due_ms for part in parts]),
            np.concatenate([part.position for part in parts]),
            np.concatenate([part.topic for part in parts]),
            np.concatenate([part.tags for part in parts]),
            np.concatenate([part.priority for part in parts]),
        )

    def select(self, rows: npt.NDArray[Any] | slice) -> DueUnits:
        """The rows given by an index array, a boolean array or a slice, in that order. A slice gives a view."""
        return DueUnits(self.due_ms[rows], self.position[rows], self.topic[rows], self.tags[rows], self.priority[rows])
