"""Units that may not be handed over for the moment, because a command that ends or moves them is on its way.

From its proposal to its result the leader does not hand such a unit over, so that a cancel that is answered 200 is not
followed by a hand-over. A held unit met in a window steps aside, still claimed, and is first in line when released.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from node.window import LaneKind, Queued
from storage.array import U64


class Holds:
    """Held positions; few at a time, one per command in flight."""

    def __init__(self) -> None:
        self._holders: Counter[int] = Counter()  # position -> commands in flight; never 0
        self._aside: dict[int, tuple[LaneKind, int, int]] = {}  # held and met in a window: its lane, topic, tags

    def add(self, positions: Iterable[int]) -> None:
        """One more command holds each of these."""
        self._holders.update(positions)

    def mask(self, positions: U64) -> npt.NDArray[np.bool_]:
        """True, shape [n], where a position is held."""
        if not self._holders:
            return np.zeros(len(positions), np.bool_)
        held = np.fromiter(self._holders, np.uint64, len(self._holders))
        return np.isin(positions, held)

    def put_aside(self, kind: LaneKind, topic: int, units: Queued) -> None:
        """Held units were met in a window and taken out of it."""
        for position, tags in zip(units.position.tolist(), units.tags.tolist(), strict=True):
            self._aside[position] = kind, topic, tags

    def drop(self, positions: Iterable[int]) -> list[tuple[LaneKind, int, Queued]]:
        """One command less holds each of these: (lane, topic, unit) of those that stood aside and are free now."""
        freed: list[tuple[LaneKind, int, Queued]] = []
        for position in positions:
            assert self._holders[position] > 0, f"position {position} is released and not held"
            self._holders[position] -= 1
            if not self._holders[position]:
                del self._holders[position]
                if position in self._aside:
                    kind, topic, tags = self._aside.pop(position)
                    freed.append((kind, topic, Queued(np.array([position], np.uint64), np.array([tags], np.uint64))))
        return freed

    def forget_aside(self) -> None:
        """The term is over: what is released later returns nowhere."""
        self._aside.clear()
