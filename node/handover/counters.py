"""The counters of a node's hand-overs, over all topics, since it started."""

import numpy as np
import numpy.typing as npt

from node.handover.lateness import Lateness


class Counters:
    """Counts since the node started. `handed_over`: hand-overs made. `acked`: acks whose answer was `acked`.
    `released`: leases ahead that were taken back without a hand-over."""

    def __init__(self, lateness: Lateness) -> None:
        self._lateness = lateness
        self.handed_over = self.acked = self.released = 0

    def hand_overs(self, count: int, lateness_ms: npt.NDArray[np.int64]) -> int:
        """Count `count` hand-overs. `lateness_ms` has one row for each of them that was the first hand-over of its
        message. Return the sum of `lateness_ms`."""
        self.handed_over += count
        return self._lateness.observe(lateness_ms)
