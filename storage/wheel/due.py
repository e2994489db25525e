"""What the wheel hands to the dispatcher: one row per unit, arrays of equal length.

Columns, because a slot may hold a million units: nothing on that way may cost Python work per message.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U8, U32, U64


@dataclass(frozen=True, slots=True, eq=False)
class Due:
    """Units that are due, in the order (due_ms, local_index). All arrays have shape [n]."""

    due_ms: I64
    position: U64
    topic: U32
    tags: U64
    priority: U8

    def __len__(self) -> int:
        return len(self.position)

    @classmethod
    def empty(cls) -> "Due":
        """No units."""
        return cls(
            np.empty(0, np.int64),
            np.empty(0, np.uint64),
            np.empty(0, np.uint32),
            np.empty(0, np.uint64),
            np.empty(0, np.uint8),
        )

    def select(self, rows: "npt.NDArray[np.bool_] | slice") -> "Due":
        """Some of them; of a slice a view."""
        return Due(self.due_ms[rows], self.position[rows], self.topic[rows], self.tags[rows], self.priority[rows])
