"""The counters of a node's hand-overs, over all topics, since it started."""

import numpy as np
import numpy.typing as npt

from node.handover.lateness import Lateness


class Counters:
    """`handed_over`: hand-overs made. `acked`: acks that were answered `acked`. `released`: leases that were taken
    back."""

    def __init__(self, lateness: Lateness) -> None:
        self._lateness = lateness
        self.handed_over = self.acked = self.released = 0

    def hand_overs(self, count: int, lateness_ms: npt.NDArray[np.int64]) -> int:
        """Count hand-overs, and the lateness of those that were their messages' first. Return the sum of the
        lateness."""
        self.handed_over += count
        return self._lateness.observe(lateness_ms)
