"""Times of `[raft]` that faults set. A node uses them from its next start on, so nodes of one cluster may have
different times."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from chaos.simulator.world.process import Process
from replication.raft.leader import UNSAID_S

USUAL: Final = "usual"
#: The times by the name that a plan has for them.
TIMES: Final[dict[str, dict[str, int]]] = {
    USUAL: {"heartbeat_ms": 50, "trust_ms": 250, "election_min_ms": 400, "election_max_ms": 800},
    "short": {"heartbeat_ms": 20, "trust_ms": 150, "election_min_ms": 200, "election_max_ms": 300},
    "long": {"heartbeat_ms": 200, "trust_ms": 1_000, "election_min_ms": 1_600, "election_max_ms": 2_400},
}


def set_times(process: Process, name: str) -> None:
    """Set the times for the node's next start."""
    raft = structs.replace(process.config.raft, **TIMES[name])
    process.config = structs.replace(process.config, raft=raft)


def may_be_older(election_min_ms: int) -> bool:
    """True if a node of the build before may have this time. Its echoes do not say how long it owes silence, and the
    leader assumes UNSAID_S. So its operator sets no shorter time (docs/operating.md, times of `[raft]`)."""
    return election_min_ms >= UNSAID_S * 1000
