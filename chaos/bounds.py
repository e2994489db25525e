"""The numbers a run is judged by, and the fault windows that are left out of what is judged by time.

The windows follow from the faults alone, not from when the service came back: a service that stays away for long must
not get a longer window.
"""

from dataclasses import dataclass

from chaos.event import Fault
from chaos.history import History


@dataclass(frozen=True)
class Bounds:
    """Defaults are the promises; a test on a busy machine widens what is about time, never what is about messages."""

    skew_ms: int = 1  # one machine, one clock, floored to milliseconds on both sides
    late_ms: int | None = None  # for first hand-overs outside fault windows; None: only reported
    duplicate_span_ms: int = 50
    gap_ms: int | None = None  # without a hand-over around a transfer, under load; None: only reported
    gap_p99_ms: int | None = None  # the same for all transfers of a run; None: only reported
    recovery_ms: int | None = (
        None  # from a fault to the first acknowledgement and the first on-time hand-over; None: only reported
    )
    on_time_ms: int = 100  # what counts as on time after a fault
    window_ms: int = 2_000  # how long a fault excuses
    in_flight_ms: int = 500  # what was offered so shortly before a fault may be cut by it
    acknowledged_share: float = 0.95  # of what was offered outside the windows

    def fault_windows(self, history: History) -> list[tuple[float, float]]:
        """(begin, end) on the monotonic clock: from the fault on for `window_ms`, a pause until so long after its end;
        a slow disk and a clock that is off excuse nothing.
        """
        windows: list[tuple[float, float]] = []
        paused: dict[str, float] = {}
        for event in history.of(Fault):
            if event.kind == "pause" and event.phase == "begin":
                paused[event.node] = event.mono_ms
            elif event.kind == "pause":
                windows.append((paused.pop(event.node), event.mono_ms + self.window_ms))
            elif event.kind not in ("slow", "clock") and event.phase == "begin":
                windows.append((event.mono_ms, event.mono_ms + self.window_ms))
        windows += [(begin_ms, float("inf")) for begin_ms in paused.values()]
        return sorted(windows)
