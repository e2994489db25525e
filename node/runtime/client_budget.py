"""The bounds on what the clients of a node may hold. They follow from the process's file descriptors and memory."""

from __future__ import annotations

from typing import Final

from api.port.budget import Budget
from node.runtime.config import Limits
from node.runtime.memory import memory_bytes
from node.runtime.open_files import CONNECTIONS_MIN, connections_max, raise_descriptors

SHARE: Final = 8
"""Clients get this fraction, one eighth, of the memory that the process may use."""
BYTES_MAX: Final = 64 * 1024 * 1024
"""The most that clients get unless the configuration says more. One loop serves them all, so it refuses the rest."""
BYTES_MIN: Final = 32 * 1024 * 1024
"""The least that clients get, even if there is little memory: enough for a batch and its answer."""
CONNECTION_BYTES: Final = 32 * 1024
"""The most memory that a connection takes while it has no request."""


def client_budget(limits: Limits, pushes: int) -> Budget:
    """The bounds for the clients of a node: bytes that they may hold, and connections. `pushes` is how many pushes the
    node may have on the wire, because these need descriptors too.
    """
    memory = memory_bytes()
    by_memory = max(CONNECTIONS_MIN, memory // SHARE // CONNECTION_BYTES)
    most = min(limits.max_connections, connections_max(raise_descriptors(), pushes), by_memory)
    return Budget(max(BYTES_MIN, limits.max_held_bytes or min(BYTES_MAX, memory // SHARE)), most)
