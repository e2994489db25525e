"""The second wheel: which units become due, and when next to look. Pure: it is given the time and the units read.

Each second has a slot. Of most slots the wheel knows one bit: used or not. Used slots stand in a delay queue (a heap of
absolute seconds). `preload_s` before its second begins, a slot is read from the store, and waits in memory, sorted. A
unit that arrives for a slot in memory is merged into it. A unit for a later slot only marks it, for the store has it.
Slots of seconds below the horizon are in memory or empty. Later slots are in the store alone.

An example, with preload_s = 10, started at 100.000 s, nothing used:

    arrive due 600.500            second 600 is marked; wake_ms = 590_000: ten seconds before, and until then never
    arrive due 300.250            wake_ms = 290_000: an earlier one moves the alarm
    290.000  loads -> [300]       horizon 301; the owner reads second 300; arrivals meanwhile for it are kept beside
    290.004  load(300, 1 unit)    wake_ms = 300_250
    295.000  arrive due 300.100   merged in memory: wake_ms = 300_100
    300.100  take -> due 300.100  state (300, 1): of second 300 the first one in order is dispatched
    300.249  take -> nothing      now rounds down to its millisecond, so never early
    300.250  take -> due 300.250  state (300, 2); wake_ms = 590_000
    301.000  take -> nothing      state (301, 0)

Rounding makes no unit early: a unit is due when now_ms >= due_ms, and the owner's clock rounds down. If now goes back,
the wheel gives only units that are due by the new now, and no unit twice. A late read holds up only its own second, and
the state with it.

The wheel does not know if a unit was settled since it was read. The caller that takes units looks at the records.
"""

import heapq

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U8, U32, U64
from storage.format.position import by_hour
from storage.wheel.loaded_slot import LoadedSlot
from storage.wheel.slot import DueUnits

SECONDS = 3600
LEAP_SECONDS = 10
"""The most used seconds in the past that one step may read."""
_MS = 1000


class SecondWheel:
    """Gives each unit once, at its due millisecond. A new leader makes one, and a leader whose clock has leaped.

    Units in the store that are due at or before `start_ms` are not given: the leader looks for them when it makes the
    wheel. The wheel gives later ones, and all units that arrive from then on.
    """

    def __init__(self, preload_s: int = 10, *, start_ms: int) -> None:
        self._preload_s = preload_s
        self._start_ms = start_ms
        self._horizon = start_ms // _MS  # seconds below are in memory (or loading), or hold nothing
        self._until = self._horizon  # seconds at or above are of hours not mapped; horizon <= until
        self._used: dict[int, npt.NDArray[np.bool_]] = {}  # by hour, shape [3600]; a set bit is in the queue
        self._queue: list[int] = []  # used seconds, all >= horizon
        self._slots: dict[int, LoadedSlot] = {}
        self._latest_ms = start_ms
        self._state = (self._horizon, 0)
        self._exact = True

    @property
    def state(self) -> tuple[int, int]:
        """The dispatch state (tick, local_index) after the last take, counting all units that had arrived by then. It
        never goes back.

        All units in seconds before `tick` are dispatched, and of second `tick` the first `local_index` in order.
        """
        return self._state

    @property
    def exact(self) -> bool:
        """True if `state` covers all units that had arrived at the last take. It is False while the clock is behind the
        latest take."""
        return self._exact

    @property
    def waiting(self) -> int:
        """The number of units in memory that are not due yet."""
        return sum(map(len, self._slots.values()))

    def use(self, seconds: I64, until_tick: int) -> None:
        """Note that all hours up to second `until_tick` (exclusive) are mapped. `seconds` (absolute) are the used
        seconds of those that were mapped last."""
        first = self._start_ms // _MS
        seconds = seconds[seconds >= first]
        assert not len(seconds) or int(seconds.min()) >= self._horizon, "an hour was mapped after the wheel passed it"
        self._until = max(self._until, until_tick)
        self._mark(seconds)

    def arrive(self, due_ms: I64, position: U64, topic: U32, tags: U64, priority: U8) -> None:
        """Add units just applied, in the order of their positions within each hour. All arrays have shape [n]."""
        ticks = due_ms // _MS
        # load() leaves out units due by start_ms, so such a unit that arrives late for a slot not yet read goes in at
        # once.
        here = (ticks < self._horizon) | (due_ms <= self._start_ms)
        self._mark(ticks[(ticks < self._until) & ~here])
        rows = np.flatnonzero(here)
        if not len(rows):
            return
        rows = rows[np.lexsort((position[rows], due_ms[rows]))]
        ticks = ticks[rows]
        starts = np.flatnonzero(np.diff(ticks, prepend=ticks[0] - 1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
            part = rows[start:end]
            units = DueUnits(due_ms[part], position[part], topic[part], tags[part], priority[part])
            self._slot(int(ticks[start])).arrive(units)

    def leaps(self, now_ms: int) -> bool:
        """True if since the last `loads` the clock has gone over more than one step may read. Then the caller makes a
        new wheel in place of this one.

        That is the case if the clock is in an hour that is not mapped, or has passed more than LEAP_SECONDS used
        seconds.
        """
        now_tick = now_ms // _MS
        if now_tick < self._until and not (self._queue and self._queue[0] < now_tick):
            return False
        return now_tick >= self._until or sum(tick < now_tick for tick in self._queue) > LEAP_SECONDS

    def loads(self, now_ms: int) -> list[int]:
        """Absolute seconds to read from the store now, rising. Each is asked for once. Answer each with load()."""
        horizon = min(self._until, now_ms // _MS + self._preload_s + 1)
        if horizon <= self._horizon:
            return []
        self._horizon = horizon
        ticks: list[int] = []
        while self._queue and self._queue[0] < horizon:
            tick = heapq.heappop(self._queue)
            self._slot(tick).loading = True
            ticks.append(tick)
        for hour in [hour for hour in self._used if (hour + 1) * SECONDS <= horizon]:
            del self._used[hour]
        return ticks

    def load(self, tick: int, slot: DueUnits) -> None:
        """Add the units of a second that `loads` asked for, as read from the store, sorted by (due_ms, local_index).

        Units that arrived during the read may be among them and are not given twice. A second that this wheel did not
        ask for is ignored: another wheel, which this one replaced, had asked for it.
        """
        if tick not in self._slots or not self._slots[tick].loading:
            return
        first = int(np.searchsorted(slot.due_ms, self._start_ms, side="right"))
        later = slice(first, None)
        self._slots[tick].load(slot.select(later))

    def take(self, now_ms: int) -> DueUnits:
        """Remove and return the units due at or before now_ms, in the order (due_ms, local_index)."""
        now_tick = now_ms // _MS
        parts: list[DueUnits] = []
        for tick in sorted(tick for tick in self._slots if tick <= now_tick):
            slot = self._slots[tick]
            if not slot.loading and (due := slot.take(now_ms)) is not None:
                parts.append(due)
        self._advance(now_ms)
        for tick in [tick for tick, slot in self._slots.items() if tick < now_tick and not slot.loading]:
            assert not len(self._slots[tick]), f"second {tick} is past and not empty"
            del self._slots[tick]
        return DueUnits.joined(parts)

    def ahead(self, until_ms: int) -> DueUnits:
        """The units in memory due at or before `until_ms`, in dispatch order. All of them stay.

        A caller that prepares units before they are due may ask often. Each time it also gets the units that arrived
        since it asked last.
        """
        slots = [slot for tick, slot in sorted(self._slots.items()) if tick * _MS <= until_ms and not slot.loading]
        return DueUnits.joined([due for slot in slots if (due := slot.ahead(until_ms)) is not None])

    def after_ms(self, until_ms: int) -> int | None:
        """Due time of the first unit in memory that is due later than `until_ms`. None if there is none."""
        for tick, slot in sorted(self._slots.items()):
            if (tick + 1) * _MS > until_ms and not slot.loading and (after := slot.after_ms(until_ms)) is not None:
                return after
        return None

    def wake_ms(self, now_ms: int) -> int | None:
        """When the caller must act next: at the first due time in memory, or at the time to load the next second. It is
        never before `now_ms`.

        None: there is nothing to do until a unit arrives, a second is loaded, or an hour is mapped.
        """
        times = [slot.first_ms for slot in self._slots.values() if not slot.loading]
        if self._queue:
            times.append((self._queue[0] - self._preload_s) * _MS)
        earliest = min((time for time in times if time is not None), default=None)
        return None if earliest is None else max(now_ms, earliest)

    def _slot(self, tick: int) -> LoadedSlot:
        slot = self._slots.get(tick)
        if slot is None:
            slot = self._slots[tick] = LoadedSlot(tick)
        return slot

    def _mark(self, ticks: I64) -> None:
        """Put those of the seconds into the queue that are not in it. At most 3600 pushes an hour, however many units
        arrive."""
        for hour, rows in by_hour(ticks // SECONDS):
            used = self._used.get(hour)
            if used is None:
                used = self._used[hour] = np.zeros(SECONDS, np.bool_)
            seconds = ticks[rows] - hour * SECONDS
            fresh = np.unique(seconds[~used[seconds]])
            used[fresh] = True
            for second in fresh.tolist():
                heapq.heappush(self._queue, hour * SECONDS + second)

    def _advance(self, now_ms: int) -> None:
        """Move the state to the first second whose units are not all dispatched. All units due by `now_ms` were taken
        before."""
        self._exact = now_ms >= self._latest_ms
        if not self._exact:
            # Units may wait that are due before units already given. The state would cover those too.
            return
        self._latest_ms = now_ms
        loading = [tick for tick, slot in self._slots.items() if slot.loading]
        tick = min([now_ms // _MS, self._horizon, *loading])
        slot = self._slots.get(tick)
        self._state = max(self._state, (tick, 0 if slot is None or slot.loading else slot.dispatched))
