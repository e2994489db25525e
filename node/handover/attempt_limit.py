"""Units that were handed over as often as their policy allows and were not settled: they end instead of going out.

The dispatcher finds them where it is about to hand them over again, holds them and tells of each once; their Fail is
proposed by who knows the policies, and releases them when it has a result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from storage.format.array import U16, U32, U64


class AttemptLimit(Protocol):
    """Knows how often a unit may be handed over."""

    def over(self, topic: int, positions: U64, attempts: U16) -> npt.NDArray[np.bool_]:
        """True, shape [n], for units of the topic that may not be handed over again. `attempts` are the numbers that
        the next hand-overs would bear, all above 1; hand-overs made so far are one less."""


@dataclass(frozen=True, slots=True, eq=False)
class Exhausted:
    """Units of one topic that are over their limit, ready, and held. All arrays have shape [n], n > 0."""

    topic: int
    position: U64  # where they stand
    term: U32  # of the newest hand-over there; 0 if there was none since they were moved
    attempt: U16  # of the newest hand-over
