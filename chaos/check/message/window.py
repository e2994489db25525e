"""Promise W: no hand-over is early, and first hand-overs come soon after the due time."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from chaos.history.bounds import Bounds
from chaos.history.event import Applied, Begun, Fault, HandedOver, Rescheduled
from chaos.history.history import History
from chaos.history.verdict import Verdict, percentiles

#: A leader's clock may be this far ahead of the median of the nodes' clocks, ms (DESIGN, node/runtime/clock.py).
AHEAD_MS: Final = 500
#: The error of measuring another node's clock, ms.
MEASURED_MS: Final = 10
#: The error of a comparison of two times that were floored to whole milliseconds.
FLOORED_MS: Final = 1
#: A drift fault makes a clock run wrong by at most this share of the time, and for at most this long
#: (chaos/plan/draw.py).
GAINED: Final = 0.02
DRIFT_MS: Final = 30_000

HandOverName: TypeAlias = tuple[str, int, int]
"""Message id, term, attempt."""


def check_window(history: History, bounds: Bounds) -> Verdict:
    """Check promise W: no hand-over is early, and first hand-overs are in time.

    A hand-over is early if it starts before any of these due times:

    - in the answer to the schedule request (first attempt, not rescheduled);
    - in the delivery;
    - in the simulator, in the leader's index.

    The starts above are by the leader's clock. The receiver's clock may show an earlier time, by `bounds.skew_ms` at
    most. Where the simulator sees all clocks, the bound is the promised one: AHEAD_MS past the median of the nodes'
    clocks at that moment.

    If clocks are set back below a due time after a hand-over, the message comes again when its lease ends or its retry
    is due. It does not wait for its due time again. The receiver's clock is still checked.

    Lateness is the receiver's clock minus the due time asked for. The late bound applies to messages due outside the
    fault windows.
    """
    moved = {event.number for event in history.of(Rescheduled) if event.outcome != "refused"}
    answered = {number: event for number, event in history.acknowledged().items() if number not in moved}
    begun = {_name(event): event for event in history.of(Begun)}
    windows = bounds.fault_windows(history)
    again = _again_after_clocks_went_back(history)
    ahead_ms = _most_ahead_ms(history, begun)
    faults = [fault for event in begun.values() for fault in _begun_early(event, again, ahead_ms)]
    late = 0
    lateness: list[float] = []
    for number, events in history.hand_overs().items():
        was_due: set[int] = set()  # due times that leaders had reached by their clocks
        for event in events:
            name = _name(event)
            if name in again:
                continue
            first_due_ms = answered[number].due_ms if number in answered and event.attempt == 1 else 0
            due_ms = max(event.due_ms, first_due_ms)
            early = event.handed_over_ms < due_ms and (name in begun or due_ms not in was_due)
            if event.handed_over_ms >= due_ms:
                was_due.add(due_ms)
            if early or event.wall_ms < due_ms - ahead_ms.get(name, bounds.skew_ms):
                faults.append(
                    f"message {number}: due {due_ms}, handed over {event.handed_over_ms}, received {event.wall_ms}"
                )
        first = min(events, key=lambda event: event.mono_ms)
        lateness.append(first.wall_ms - first.asked_due_ms)
        calm = bounds.late_ms is not None and not windows.touch(first.mono_ms - max(lateness[-1], 0), first.mono_ms)
        if bounds.late_ms is not None and calm and lateness[-1] > bounds.late_ms:
            faults.append(f"message {number}: {lateness[-1]:.0f} ms late, outside any fault window")
            late += 1
    return Verdict("W", {"early": len(faults) - late, "lateness_ms": percentiles(lateness)}, faults)


def _again_after_clocks_went_back(history: History) -> set[HandOverName]:
    """The names of repeats that need not wait for their due time again. An earlier hand-over was made at the due time,
    by its leader's clock, before a Realign set the time back below it. The message was not moved meanwhile: its
    `due_ms` is the same."""
    back = [(event.mono_ms, event.state[0] * 1000) for event in history.of(Applied) if event.realigned and event.state]
    found: set[HandOverName] = set()
    first: dict[tuple[str, int], Begun] = {}
    for event in sorted(history.of(Begun), key=lambda event: event.mono_ms):
        before = first.get((event.message_id, event.due_ms))
        if before is None:
            if event.at_ms >= event.due_ms:
                first[event.message_id, event.due_ms] = event
        elif event.attempt > before.attempt and any(
            before.mono_ms <= mono_ms <= event.mono_ms and to_ms < event.due_ms for mono_ms, to_ms in back
        ):
            found.add(_name(event))
    return found


def _name(event: Begun | HandedOver) -> HandOverName:
    return event.message_id, event.term, event.attempt


def _most_ahead_ms(history: History, begun: Mapping[HandOverName, Begun]) -> dict[HandOverName, float]:
    """By hand-over: how many ms the clock of its node may be ahead of true time, where the simulator sees all
    clocks."""
    drifts_ms = [fault.mono_ms for fault in history.of(Fault) if fault.kind == "drift"]
    most_ms = AHEAD_MS + MEASURED_MS + FLOORED_MS
    return {
        name: event.median_ahead_ms + most_ms + GAINED * _drifted_ms(event, drifts_ms)
        for name, event in begun.items()
        if event.median_ahead_ms is not None
    }


def _drifted_ms(event: Begun, drifts_ms: Iterable[float]) -> float:
    """How long clocks can have run wrong since this node heard the others, ms. The node keeps another clock's time for
    at most `known_s`.

    A drift that was under way at that moment counts from its begin. At the drift's end the wrong clock is set right.
    The time of it that the node still keeps is then wrong by all that the clock had gained.
    """
    known_ms = event.known_s * 1000
    since_ms = event.mono_ms - known_ms - DRIFT_MS
    ran_ms = sum(min(event.mono_ms - at_ms, DRIFT_MS) for at_ms in drifts_ms if since_ms < at_ms < event.mono_ms)
    return min(known_ms, ran_ms)


def _begun_early(event: Begun, again: set[HandOverName], most_ahead_ms: Mapping[HandOverName, float]) -> Iterator[str]:
    """Check when one hand-over began, by the clock of its node, and how far that clock is ahead of true time. Yield the
    violations as lines."""
    ahead_ms = event.at_ms - event.wall_ms
    name = f"{event.message_id} in term {event.term}, attempt {event.attempt}"
    if event.at_ms < event.due_ms and _name(event) not in again:
        yield f"{name}: {event.node} begins it at {event.at_ms} by its clock, and has it due at {event.due_ms}"
    if ahead_ms > most_ahead_ms.get(_name(event), ahead_ms):
        median = f"that of the median {event.median_ahead_ms:.0f} ms"
        yield f"{name}: the clock of {event.node} is {ahead_ms} ms ahead, {median}"
