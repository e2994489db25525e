"""A node ends by itself only because of a fault on its disk, and its code leaves no exception without a handler."""

from chaos.history.bounds import Bounds
from chaos.history.event import Crashed
from chaos.history.history import History
from chaos.history.verdict import Verdict


def check_alive(history: History, bounds: Bounds) -> Verdict:
    """Check that no node ended by itself, except after a failed write or sync, or a checksum that does not match. An
    exception that a node survives, because it is only logged, is a violation too."""
    crashed = history.of(Crashed)
    faults = [f"at {event.mono_ms:.0f} ms {event.node}: {event.error}" for event in crashed if not event.expected]
    return Verdict("alive", {"ended": len(crashed), "unexpected": len(faults)}, faults)
