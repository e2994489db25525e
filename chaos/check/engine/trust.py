"""One trusted leader at a time, by the nodes' own trust at each moment and by the begin of their hand-overs."""

import itertools

from chaos.history.bounds import Bounds
from chaos.history.event import Begun, Sure
from chaos.history.history import History
from chaos.history.verdict import Verdict


def check_trust(history: History, bounds: Bounds) -> Verdict:
    """Check four things:

    - no two nodes are sure to lead at one moment;
    - no node is sure to lead in an older term than one in which a node was sure to lead before;
    - the terms of hand-overs never go back;
    - one node begins all hand-overs of a term.
    """
    faults: list[str] = []
    node_of: dict[int, str] = {}
    highest: Sure | Begun | None = None
    sure = history.of(Sure)
    for moment, several in itertools.groupby(sure, key=lambda event: event.mono_ms):
        names = sorted({event.node for event in several})
        if len(names) > 1:
            faults.append(f"at {moment:.0f} ms {' and '.join(names)} are sure to lead")
    for event in history.events:
        if not isinstance(event, Sure | Begun):
            continue
        leader = node_of.setdefault(event.term, event.node)
        what = "begins a hand-over" if isinstance(event, Begun) else "is sure to lead"
        if leader != event.node:
            faults.append(f"at {event.mono_ms:.0f} ms {event.node} {what} in term {event.term}, which is {leader}'s")
        if highest is not None and event.term < highest.term:
            faults.append(
                f"at {event.mono_ms:.0f} ms {event.node} {what} in term {event.term}, after term {highest.term} had "
                f"begun at {highest.node}"
            )
        else:
            highest = event
    return Verdict("trust", {"terms": len(node_of), "looks": len(sure)}, faults)
