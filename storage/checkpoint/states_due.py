"""The hours whose states files a checkpoint makes longer, and the states files that it removes.

A states file (state/files.py) has the states of a large hour's units. With it a look-up does not read all settle
records.
"""

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
"""Large hours without states files for which one checkpoint begins some, though the hours were not written to."""


@dataclass(slots=True)
class FrozenStates:
    """A checkpoint's work on states files.

    - `begun`: hours that have no states files. The checkpoint writes their first one.
    - `removed`: files that the checkpoint removes, because no reader has them open any more.
    - `extended`, filled by `extend`: hours whose set of states files has changed, and the number of settle records that
      their files cover now.
    - `superfluous`, filled by `extend`: files that a longer one replaced. They can be removed once no reader has them
      open.
    - `used`, filled by `extend`: files that readers need from now on.
    """

    begun: frozenset[int]
    removed: tuple[Path, ...]
    extended: list[tuple[HourCounters, int]] = field(default_factory=list)
    superfluous: list[Path] = field(default_factory=list)
    used: set[Path] = field(default_factory=set)

    def extend(self, rows: Rows, touched: set[int], open_files: OpenFiles) -> None:
        """Make the states files of the large hours in `touched` and `begun` longer. For the checkpoint's thread. `rows`
        are the counters of all hours. Raises Corrupt or DiskFailed."""
        large = rows[(rows["number"] >= 0) & (rows["settles"] >= TAIL_MIN)]
        wanted = large[np.isin(large["number"], list(touched | self.begun))]
        for hour in map(HourCounters._make, np.sort(wanted, order="number").tolist()):
            files = open_files(hour.number, hour.generation, hour.first)
            end = extend(files, hour.settles, self.superfluous, self.used)
            if end is not None:
                self.extended.append((hour, end))
            files.close()


class StatesDue:
    """The large hours that lack states files, and the superfluous files. Both wait until a checkpoint takes them. For
    the loop's thread."""

    def __init__(self, rows: Rows) -> None:
        """`rows` are the counters of all hours at the open of the store. An older build may have left large hours
        without files."""
        self._without: set[int] = set(rows["number"][rows["settles"] >= TAIL_MIN].tolist())
        self._superfluous: list[Path] = []

    def freeze(self, written: set[int]) -> FrozenStates:
        """Take the work of the next checkpoint. The checkpoint also extends the files of the hours in `written`."""
        self._without -= written
        begun = frozenset(self._without.pop() for _ in range(min(_BEGUN, len(self._without))))
        removed, self._superfluous = tuple(self._superfluous), []
        return FrozenStates(begun, removed)

    def thaw(self, frozen: FrozenStates, hours: Mapping[int, Hour]) -> None:
        """Make the hours read their longer files. Call it once the checkpoint is durable.

        An hour that was begun again meanwhile is left out, because it has a directory of its own, without states files.
        """
        self._superfluous += frozen.superfluous
        for extended, end in frozen.extended:
            hour = hours.get(extended.number)
            if hour is not None and hour.generation == extended.generation:
                hour.rebase_states(end)
