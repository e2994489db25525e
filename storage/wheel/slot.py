"""The columns in which the store gives units to the wheel: one row per unit, arrays of equal length.

Columns, because a slot may hold a million units: nothing on that way may cost Python work per message.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U8, U32, U64


@dataclass(frozen=True, slots=True, eq=False)
class SlotColumns:
    """Units sorted by (due_ms, local_index); across seconds that is the order of due_ms and arrival. Shape [n] each.

    Within one second the order of local_index is the order of position, since both count appends.
    """

    due_ms: I64
    position: U64
    local_index: U32
    topic: U32
    tags: U64
    priority: U8

    def __len__(self) -> int:
        return len(self.position)

    @classmethod
    def empty(cls) -> "SlotColumns":
        """No units."""
        return cls(
            np.empty(0, np.int64),
            np.empty(0, np.uint64),
            np.empty(0, np.uint32),
            np.empty(0, np.uint32),
            np.empty(0, np.uint64),
            np.empty(0, np.uint8),
        )

    def select(self, rows: npt.NDArray[Any] | slice) -> "SlotColumns":
        """The rows given by an index array, a mask or a slice, in that order."""
        return SlotColumns(
            self.due_ms[rows],
            self.position[rows],
            self.local_index[rows],
            self.topic[rows],
            self.tags[rows],
            self.priority[rows],
        )
