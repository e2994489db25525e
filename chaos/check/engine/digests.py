"""Promise H: when all faults are healed, the files of all nodes are equal, and every checksum in them holds."""

from chaos.history.bounds import Bounds
from chaos.history.event import Digest
from chaos.history.history import History
from chaos.history.verdict import Verdict


def check_digests(history: History, bounds: Bounds) -> Verdict:
    """Check that all nodes have an equal applied index, an equal digest and no damage."""
    found = history.of(Digest)
    faults = [f"{event.node}: {damage}" for event in found for damage in event.damage]
    if len({(event.applied_index, event.digest) for event in found}) > 1:
        told = ", ".join(f"{event.node} {event.digest[:16]} at {event.applied_index}" for event in found)
        faults.append(f"the nodes' files differ: {told}")
    return Verdict("H", {"nodes": len(found)}, faults)
