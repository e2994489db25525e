"""No single step of a node's event loop makes the steps behind it wait for long."""

from chaos.history.bounds import Bounds
from chaos.history.event import Held
from chaos.history.history import History
from chaos.history.verdict import Verdict


def check_held(history: History, bounds: Bounds) -> Verdict:
    """Check that each step was charged at most `held_ms` (chaos/simulator/time/cost.py).

    One exception: at level 1 the entry that unlinks an hour drops all keys of the hour at once, as the first builds do.
    Level 2 drops them in parts, and no node may do so below level 2.
    """
    steps = history.of(Held)
    faults = [
        f"at {event.mono_ms:.0f} ms {event.node} was held for {event.held_ms:.0f} ms: "
        + ", ".join(f"{what} {ms:.1f}" for what, ms in event.by[:3])
        for event in steps
        if event.held_ms - _owed_to_level_1(event) > bounds.held_ms
    ]
    longest_ms = max((event.held_ms for event in steps), default=0.0)
    return Verdict("held", {"longest_ms": round(longest_ms), "over": len(faults)}, faults)


def _owed_to_level_1(event: Held) -> float:
    """The milliseconds that a step spent on dropping keys below level 2. A cluster at level 2 saves them, so they do
    not count."""
    return 0.0 if event.lazy_keys else dict(event.by).get("keys dropped", 0.0)
