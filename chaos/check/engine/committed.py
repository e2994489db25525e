"""Committed entries stay: all nodes apply the same entry at an index, and no node loses it."""

from collections import defaultdict

from chaos.history.bounds import Bounds
from chaos.history.event import Applied, Digest
from chaos.history.history import History
from chaos.history.verdict import Verdict


def check_committed(history: History, bounds: Bounds) -> Verdict:
    """Check that nodes apply the same entries. Only committed entries are applied, so each of these breaks one:

    - two nodes apply different entries at one index;
    - their rolling hashes differ after it;
    - a node is at the end behind an index that any node had applied.

    After a restart a node applies entries again from its last checkpoint on, with the same result.
    """
    faults: list[str] = []
    first: dict[int, Applied] = {}
    reached: dict[str, int] = defaultdict(int)
    for event in history.of(Applied):
        known = first.setdefault(event.index, event)
        reached[event.node] = max(reached[event.node], event.index)
        if (known.term, known.crc) != (event.term, event.crc):
            faults.append(
                f"index {event.index}: {known.node} applied an entry of term {known.term}, {event.node} another, of "
                f"term {event.term}"
            )
        elif known.rolling != event.rolling:
            faults.append(f"index {event.index}: the rolling hash of {event.node} is not that of {known.node}")
    last = max(first, default=0)
    faults += [
        f"{event.node} ends at index {event.applied_index}, index {last} had been applied by {first[last].node}"
        for event in history.of(Digest)
        if event.applied_index < last
    ]
    figure = {"entries": len(first), "applied": {node: reached[node] for node in sorted(reached)}}
    return Verdict("committed", figure, faults)
