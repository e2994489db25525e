"""A leader proposes a new format only when every member reads it, and a refusal names a member that lags."""

from chaos.history.bounds import Bounds
from chaos.history.event import Applied, LevelAsked, Raised
from chaos.history.history import History
from chaos.history.verdict import Verdict


def check_levels(history: History, bounds: Bounds) -> Verdict:
    """Check the levels of the cluster:

    - a leader raises the level only after every member has told it that it reads that level;
    - no entry has a newer version than the level;
    - a member that the refusal of a new level names as older ran as an older build lately.
    """
    raised, asked = history.of(Raised), history.of(LevelAsked)
    faults = [
        f"at {event.mono_ms:.0f} ms {event.node} raises the level to {event.level}: {member} "
        + (f"reads up to {reads}" if reads else "is not connected, or never told it what it reads")
        for event in raised
        for member, reads in event.heard
        if reads < event.level
    ]
    level = 1
    for entry in sorted((event for event in history.of(Applied) if event.stamp_ms), key=lambda event: event.index):
        if entry.raises:
            level = max(level, entry.version)
        elif entry.version > level:
            faults.append(
                f"the entry at {entry.index} has version {entry.version}, the cluster stands at level {level}"
            )
    faults += [
        f"at {event.mono_ms:.0f} ms {event.lags} is said to read only up to {event.reads}, and is no older build"
        for event in asked
        if event.reads and event.lags not in event.older
    ]
    named = sum(1 for event in asked if event.lags)
    return Verdict("levels", {"raised": len(raised), "level": level, "asked": len(asked), "named": named}, faults)
