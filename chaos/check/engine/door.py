"""No message of a stranger changes a term, a vote, a leader or the list of members."""

from collections import Counter

from chaos.history.bounds import Bounds
from chaos.history.event import Intruded
from chaos.history.history import History
from chaos.history.verdict import Verdict


def check_door(history: History, bounds: Bounds) -> Verdict:
    """Check that no node changed its term, vote, leader, log or list of members while it handled a message of a
    stranger (chaos/simulator/faults/stranger.py)."""
    heard = history.of(Intruded)
    faults = [
        f"at {event.mono_ms:.0f} ms {event.node} heard {event.what} of one who knows {event.knows}: {event.moved}"
        for event in heard
        if event.moved
    ]
    of = Counter(event.knows for event in heard)
    return Verdict("door", {f"heard_of_{knows}": count for knows, count in sorted(of.items())}, faults)
