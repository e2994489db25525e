"""No step of a node's event loop keeps everybody waiting for long."""

from chaos.bounds import Bounds
from chaos.event import Held
from chaos.history import History
from chaos.verdict import Verdict


def check_held(history: History, bounds: Bounds) -> Verdict:
    """A step was charged at most `held_ms` (chaos/simulator/cost.py)."""
    steps = history.of(Held)
    faults = [
        f"at {event.mono_ms:.0f} ms {event.node} was held for {event.held_ms:.0f} ms: "
        + ", ".join(f"{what} {ms:.1f}" for what, ms in event.by[:3])
        for event in steps
        if event.held_ms > bounds.held_ms
    ]
    longest_ms = max((event.held_ms for event in steps), default=0.0)
    return Verdict("held", {"longest_ms": round(longest_ms), "over": len(faults)}, faults)
