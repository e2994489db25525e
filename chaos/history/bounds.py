"""The bounds that judge a run, and the fault windows that checks of time leave out.

The windows follow from the faults alone, not from the return of the service. A service that stays away for long must
not get a longer window.
"""

import bisect
from collections.abc import Iterable
from dataclasses import dataclass

from chaos.history.event import Fault
from chaos.history.history import History


@dataclass(frozen=True)
class Bounds:
    """The bounds of a run. The defaults are the promised bounds. A test on a busy machine widens bounds of time, never
    of messages."""

    skew_ms: int = 1  # one machine, one clock, floored to milliseconds on both sides
    late_ms: int | None = None  # for first hand-overs outside fault windows. None: only reported
    duplicate_span_ms: int = 50
    gap_ms: int | None = None  # without a hand-over around a transfer, under load. None: only reported
    gap_p99_ms: int | None = None  # the same for all transfers of a run. None: only reported
    recovery_ms: int | None = (
        None  # from a fault to the first acknowledgement and the first on-time hand-over. None: only reported
    )
    on_time_ms: int = 100  # the lateness that counts as on time after a fault
    window_ms: int = 2_000  # a fault excuses for this long
    in_flight_ms: int = 500  # an offer this shortly before a fault may get no answer
    acknowledged_share: float = 0.95  # of the offers outside the windows
    lasting: frozenset[str] = frozenset({"pause"})  # kinds that excuse until `window_ms` after their end
    excuse_nothing: frozenset[str] = frozenset({"slow"})  # kinds that clients have to bear, or do not notice
    clocks_right: bool = False  # for the whole run: reported times can be compared with the true ones
    # A message that is due later than this after now has no lease. None: not known, as where clocks are wrong.
    lease_ahead_ms: int | None = None
    clocks_set_back: bool = False  # all clocks were set together in this run
    held_ms: int = 50  # the most that a step of a simulated node's event loop may take
    # A term ends with the fault that hit its leader. False where many kinds of faults overlap: then, for an observer, a
    # term ends with the first hand-over of the next one.
    fault_ends_term: bool = True

    def fault_windows(self, history: History) -> "Windows":
        """Return the fault windows. The window of a fault lasts `window_ms` from its begin. The window of a `lasting`
        kind goes on until `window_ms` after the fault's end. Kinds that `excuse_nothing` have no window."""
        windows: list[tuple[float, float]] = []
        begun: dict[tuple[str, str], list[float]] = {}
        for event in history.of(Fault):
            key = (event.kind, event.node)
            if event.kind in self.lasting and event.phase == "begin":
                begun.setdefault(key, []).append(event.mono_ms)
            elif event.kind in self.lasting:
                windows.append((begun[key].pop(0), event.mono_ms + self.window_ms))
            elif event.kind not in self.excuse_nothing and event.phase == "begin":
                windows.append((event.mono_ms, event.mono_ms + self.window_ms))
        windows += [(begin_ms, float("inf")) for several in begun.values() for begin_ms in several]
        return Windows(windows)


class Windows:
    """Spans of time on the monotonic clock, ends included. Spans that overlap are joined."""

    def __init__(self, spans: Iterable[tuple[float, float]]) -> None:
        self.spans: list[tuple[float, float]] = []
        for begin, end in sorted(spans):
            if self.spans and begin <= self.spans[-1][1]:
                self.spans[-1] = (self.spans[-1][0], max(end, self.spans[-1][1]))
            else:
                self.spans.append((begin, end))
        self._begins = [begin for begin, _ in self.spans]

    def end_of(self, moment: float) -> float:
        """The end of the span that holds this moment. Without such a span, the moment itself."""
        place = bisect.bisect_right(self._begins, moment) - 1
        return max(moment, self.spans[place][1]) if place >= 0 else moment

    def touch(self, begin: float, end: float) -> bool:
        """True if any moment from `begin` to `end` lies in a window. `begin` is at most `end`."""
        place = bisect.bisect_right(self._begins, end) - 1
        return place >= 0 and self.spans[place][1] >= begin
