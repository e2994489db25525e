"""What the clients of a node may hold of it, by the descriptors and the memory that the process has."""

from __future__ import annotations

from typing import Final

from api.budget import Budget
from node.config import Limits
from node.descriptor import connections_max, raise_descriptors
from node.memory import memory_bytes

SHARE: Final = 8
"""Of the memory that the process may use clients get one part in so many."""
BYTES_MIN: Final = 32 * 1024 * 1024
"""Room for a batch and its answer, however little that is."""


def client_budget(limits: Limits, pushes: int) -> Budget:
    """Beside so many pushes on the wire."""
    held = limits.max_held_bytes or memory_bytes() // SHARE
    return Budget(max(BYTES_MIN, held), connections_max(raise_descriptors(), pushes))
