"""Promise P: each push that a receiver got stands in the delivery log of the node that sent it."""

from chaos.history.bounds import Bounds
from chaos.history.event import HandedOver
from chaos.history.history import History
from chaos.history.verdict import Verdict


def check_started(history: History, bounds: Bounds) -> Verdict:
    """Check promise P: each received push has its begin on record, because a node records a push before it sends it."""
    pushed = [event for event in history.of(HandedOver) if event.pushed]
    faults = [
        f"message {event.number}: received as term {event.term}, attempt {event.attempt}; no node wrote that it began"
        for event in pushed
        if not event.handed_over_ms
    ]
    failed = sum(not event.taken for event in pushed)
    return Verdict("P", {"webhooks": len(pushed), "answered_500": failed, "unaccounted": len(faults)}, faults)
