"""A node ends by itself only because of a fault on its disk, and no error is swallowed."""

from chaos.history.bounds import Bounds
from chaos.history.event import Crashed
from chaos.history.history import History
from chaos.history.verdict import Verdict


def check_alive(history: History, bounds: Bounds) -> Verdict:
    """Check that only a failed write or sync, or a checksum that does not match, ends a node. No exception may be
    swallowed."""
    crashed = history.of(Crashed)
    faults = [f"at {event.mono_ms:.0f} ms {event.node}: {event.error}" for event in crashed if not event.expected]
    return Verdict("alive", {"ended": len(crashed), "unexpected": len(faults)}, faults)
