"""A dispatch state counts only units that were dispatched: none before its due time, and none that does not exist."""

from bisect import bisect_right
from collections import defaultdict

from chaos.history.bounds import Bounds
from chaos.history.event import Applied, LeftOut
from chaos.history.history import History
from chaos.history.verdict import Verdict
from storage.format.position import MS_PER_TICK


def check_dispatch_state(history: History, bounds: Bounds) -> Verdict:
    """Check each dispatch state (tick, local_index, applied_index) against the latest time that its leader's clock
    showed. That is the latest stamp of its term, or the time from which the clock was set back. At that time:

    - the slots before `tick` are over;
    - in slot `tick` at least `local_index` units were due, of entries up to `applied_index`.

    A state that is no further than the state before it is exempt: an earlier leader's clock may have been ahead. Only a
    Realign takes a state back.

    The simulator also sees which units a leader dispatched before it proposed a state (LeftOut). A unit is dispatched
    if it went to a ready window, or if its lease ahead ran when the wheel gave it out. That lease may have been taken
    back since. If a state counts a unit that was not dispatched, the next leader passes over it, unless a settle record
    names it.
    """
    faults: list[str] = []
    slots: dict[int, list[tuple[int, int]]] = defaultdict(list)  # tick -> (index of the entry, due_ms)
    stamps_ms: dict[int, int] = defaultdict(int)
    before: tuple[int, int] = (0, 0)
    states = 0
    for event in history.of(Applied):
        if not event.stamp_ms:
            continue
        if event.state is not None:
            states += 1
            tick, local_index, applied_index = event.state
            name = f"index {event.index}: the dispatch state ({tick}, {local_index}, {applied_index})"
            latest_ms = stamps_ms[event.term] = max(stamps_ms[event.term], event.stamp_ms, event.shown_ms)
            more = (tick, local_index) > before
            if more and tick * MS_PER_TICK > latest_ms and not event.realigned:
                faults.append(f"{name} is ahead of its stamp {event.stamp_ms}")
            due = sorted(due_ms for index, due_ms in slots.get(tick, ()) if index <= applied_index)
            there = bisect_right(due, latest_ms)
            if more and local_index > there:
                faults.append(f"{name} names {local_index} units, {there} of its second were due by {latest_ms}")
            if (tick, local_index) < before and not event.realigned:
                faults.append(f"{name} goes back from {before}")
            if applied_index >= event.index:
                faults.append(f"{name} speaks of entries that are not applied")
            before = (tick, local_index)
        for _, due_ms in event.units:
            slots[due_ms // MS_PER_TICK].append((event.index, due_ms))
    faults += [
        f"{left.node} says that second {left.tick - 1} is dispatched, and had not dispatched the unit at "
        f"{left.position:#x}, due {left.due_ms}"
        for left in history.of(LeftOut)
    ]
    return Verdict("state", {"states": states, "seconds": len(slots)}, faults)
