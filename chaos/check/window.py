"""W: each hand-over in its window, never early."""

from chaos.bounds import Bounds
from chaos.event import Rescheduled
from chaos.history import History
from chaos.verdict import Verdict, percentiles


def check_window(history: History, bounds: Bounds) -> Verdict:
    """W: nothing before its due millisecond by the leader's clock, nor by the receiver's beyond the skew bound; first
    hand-overs in time.

    Of what was moved the due time counts that it came with. Lateness is the receiver's clock minus the due time asked
    for. The late bound applies to messages due outside the fault windows.
    """
    moved = {event.number for event in history.of(Rescheduled) if event.outcome != "refused"}
    answered = {number: event for number, event in history.acknowledged().items() if number not in moved}
    windows = bounds.fault_windows(history)
    faults: list[str] = []
    early = 0
    lateness: list[float] = []
    for number, events in history.hand_overs().items():
        for event in events:
            first_due_ms = answered[number].due_ms if number in answered and event.attempt == 1 else 0
            due_ms = max(event.due_ms, first_due_ms)
            if event.handed_over_ms < due_ms or event.wall_ms < due_ms - bounds.skew_ms:
                early += 1
                faults.append(
                    f"message {number}: due {due_ms}, handed over {event.handed_over_ms}, received {event.wall_ms}"
                )
        first = min(events, key=lambda event: event.mono_ms)
        lateness.append(first.wall_ms - first.asked_due_ms)
        calm = not any(begin <= first.mono_ms and first.mono_ms - lateness[-1] <= end for begin, end in windows)
        if bounds.late_ms is not None and calm and lateness[-1] > bounds.late_ms:
            faults.append(f"message {number}: {lateness[-1]:.0f} ms late, outside any fault window")
    return Verdict("W", {"early": early, "lateness_ms": percentiles(lateness)}, faults)
