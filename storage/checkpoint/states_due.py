"""The hours whose states files a checkpoint makes longer, and the states files that it removes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from storage.hour.hour import Hour
from storage.hour.hour_table import HourCounters, Rows
from storage.hour.stage_write import OpenFiles
from storage.state.files import TAIL_MIN, extend

_BEGUN: Final = 8
"""Hours whose files one checkpoint begins though they were not written to."""


@dataclass(slots=True)
class FrozenStates:
    """A checkpoint's work on states files.

    - `begun`: hours whose files it begins. `removed`: files that no reader has open any more.
    - `extended`, after `extend`: hours whose files go further now or are fewer, and how far they go.
    - `superfluous`, after `extend`: files that can go once no reader has them open.
    - `used`, after `extend`: files that count and must stay.
    """

    begun: frozenset[int]
    removed: tuple[Path, ...]
    extended: list[tuple[HourCounters, int]] = field(default_factory=list)
    superfluous: list[Path] = field(default_factory=list)
    used: set[Path] = field(default_factory=set)

    def extend(self, rows: Rows, touched: set[int], open_files: OpenFiles) -> None:
        """Make the files of the large hours among these longer. In a thread. Raises Corrupt or DiskFailed."""
        large = rows[(rows["number"] >= 0) & (rows["settles"] >= TAIL_MIN)]
        wanted = large[np.isin(large["number"], list(touched | self.begun))]
        for hour in map(HourCounters._make, np.sort(wanted, order="number").tolist()):
            files = open_files(hour.number, hour.generation, hour.first)
            end = extend(files, hour.settles, self.superfluous, self.used)
            if end is not None:
                self.extended.append((hour, end))
            files.close()


class StatesDue:
    """The work on states files that is due. On the loop's thread."""

    def __init__(self, rows: Rows) -> None:
        """`rows` are the counters of all hours at the open of the store. An older build may have left large hours
        without files."""
        self._without: set[int] = set(rows["number"][rows["settles"] >= TAIL_MIN].tolist())
        self._superfluous: list[Path] = []

    def freeze(self, written: set[int]) -> FrozenStates:
        """Freeze the work for a checkpoint. It extends the hours in `written` in any case."""
        self._without -= written
        begun = frozenset(self._without.pop() for _ in range(min(_BEGUN, len(self._without))))
        removed, self._superfluous = tuple(self._superfluous), []
        return FrozenStates(begun, removed)

    def thaw(self, frozen: FrozenStates, hours: Mapping[int, Hour]) -> None:
        """Let the hours read their longer files. The checkpoint is durable.

        An hour that was begun again meanwhile has a directory of its own, without files.
        """
        self._superfluous += frozen.superfluous
        for extended, end in frozen.extended:
            hour = hours.get(extended.number)
            if hour is not None and hour.generation == extended.generation:
                hour.rebase_states(end)
