"""A slot of the second wheel while it is in memory: the waiting units of one second, and the number dispatched.

Units come as one big run read from the store and as many small ones that arrive live, even after they are due. A merge
of each arrival into a million units would cost milliseconds every time. So runs are kept apart and merged like the
digits of a counter. Two neighbours become one when the newer is at least half as long as the older. That leaves log(n)
runs, and each unit is copied log(n) times at most. The big run is touched only when half as much has arrived.
"""

from storage.format.position import INDEX_MAX
from storage.wheel.slot import DueUnits
from storage.wheel.sorted_run import Run


class LoadedSlot:
    """The units of one absolute second that wait in memory. While `loading` is True, a thread reads the units that the
    store has. Then `take` must not be called."""

    def __init__(self, tick: int) -> None:
        self.tick = tick
        self.loading = False
        self._runs: list[Run] = []
        self._newest = -1  # largest global_index that ever came
        self._taken = 0
        self._again = 0  # units that came when they may have been taken before

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def first_ms(self) -> int | None:
        """Due time of the first waiting unit. None if no unit waits."""
        return min((run.first_ms for run in self._runs if len(run)), default=None)

    @property
    def dispatched(self) -> int:
        """How many different units were taken, as far as that is certain. A unit that came back after it was taken
        counts once."""
        return max(0, self._taken - self._again)

    def arrive(self, units: DueUnits) -> None:
        """Merge units that apply has just stored, given in dispatch order. A unit that waits here already is kept only
        once."""
        run = Run.of(self.tick, units)
        index = units.position & INDEX_MAX
        if int(index.min()) <= self._newest:
            for other in self._runs:
                run = run.without(other)
            # A unit that came before and does not wait was taken or settled, so it may now be taken a second time.
            self._again += int(((run.units().position & INDEX_MAX) <= self._newest).sum())
        self._newest = max(self._newest, int(index.max()))
        self._push(run)

    def load(self, units: DueUnits) -> None:
        """Merge the units that were read from the store, given in dispatch order. A unit that arrived during the read
        is kept only once."""
        assert self.loading, f"second {self.tick} loaded without being asked for"
        self.loading = False
        if not len(units):
            return
        run = Run.of(self.tick, units)
        arrived = [left for other in self._runs if len(left := other.without(run))]
        self._newest = max(self._newest, int((units.position & INDEX_MAX).max()))
        self._runs = []
        for part in (run, *arrived):
            self._push(part)

    def take(self, now_ms: int) -> DueUnits | None:
        """Remove the units due at or before `now_ms` and return them in dispatch order. Return None if no unit is
        due."""
        due = [head for run in self._runs if len(head := run.take(now_ms))]
        if not due:
            return None
        self._runs = [run for run in self._runs if len(run)]
        units = Run.merge(due).units()
        self._taken += len(units)
        return units

    def ahead(self, until_ms: int) -> DueUnits | None:
        """The waiting units due at or before `until_ms`, in dispatch order. They stay here. None if there is no such
        unit."""
        heads = [head for run in self._runs if len(head := run.head(until_ms))]
        return Run.merge(heads).units() if heads else None

    def after_ms(self, until_ms: int) -> int | None:
        """Due time of the first waiting unit that is due later than `until_ms`. None if there is none."""
        return min((after for run in self._runs if (after := run.after_ms(until_ms)) is not None), default=None)

    def _push(self, run: Run) -> None:
        if not len(run):
            return
        runs = self._runs
        runs.append(run)
        while len(runs) > 1 and 2 * len(runs[-1]) >= len(runs[-2]):
            newer, older = runs.pop(), runs.pop()
            runs.append(Run.merge([older, newer]))
