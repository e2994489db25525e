"""P: the nodes' own accounts of their pushes are complete."""

from chaos.history.bounds import Bounds
from chaos.history.event import HandedOver
from chaos.history.history import History
from chaos.history.verdict import Verdict


def check_started(history: History, bounds: Bounds) -> Verdict:
    """P: a node records each push before it sends it."""
    pushed = [event for event in history.of(HandedOver) if event.pushed]
    faults = [
        f"message {event.number}: received as term {event.term}, attempt {event.attempt}; no node wrote that it began"
        for event in pushed
        if not event.handed_over_ms
    ]
    failed = sum(not event.taken for event in pushed)
    return Verdict("P", {"webhooks": len(pushed), "answered_500": failed, "unaccounted": len(faults)}, faults)
