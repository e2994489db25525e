"""The bounds on what the clients of a node may hold, by the descriptors and the memory that the process has."""

from __future__ import annotations

from typing import Final

from api.port.budget import Budget
from node.runtime.config import Limits
from node.runtime.memory import memory_bytes
from node.runtime.open_files import CONNECTIONS_MIN, connections_max, raise_descriptors

SHARE: Final = 8
"""Clients get one part in so many of the memory that the process may use."""
BYTES_MAX: Final = 64 * 1024 * 1024
"""The upper bound, unless it is set. One loop serves all clients, and had better refuse requests than keep too many."""
BYTES_MIN: Final = 32 * 1024 * 1024
"""Room for a batch and its answer, however little memory there is."""
CONNECTION_BYTES: Final = 32 * 1024
"""The memory of a connection that holds nothing, at most."""


def client_budget(limits: Limits, pushes: int) -> Budget:
    """The budget beside so many pushes on the wire."""
    memory = memory_bytes()
    by_memory = max(CONNECTIONS_MIN, memory // SHARE // CONNECTION_BYTES)
    most = min(limits.max_connections, connections_max(raise_descriptors(), pushes), by_memory)
    return Budget(max(BYTES_MIN, limits.max_held_bytes or min(BYTES_MAX, memory // SHARE)), most)
