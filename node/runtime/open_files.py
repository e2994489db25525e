"""Bounds on the files and connections that the process may have open.

A process that runs out of descriptors cannot open its own files either, and a failed open of a file ends the node. So
the limit is raised as far as the system allows. Connections to receivers and of clients get a part of it each.
"""

from __future__ import annotations

import resource
from typing import Final

#: For the node's own files and its peers.
RESERVE: Final = 256
CONNECTIONS_MIN: Final = 16
#: OPEN_MAX of macOS: a process may have no more there, whatever the hard limit says.
OPEN_MAX: Final = 10_240


def raise_descriptors() -> int:
    """Raise the soft limit to the hard one. Return the limit that counts from now on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except ValueError:  # macOS, where the hard limit is infinite
            most = max(soft, OPEN_MAX)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            return most
    return hard if hard != resource.RLIM_INFINITY else 1 << 20


def connections_max(limit: int, pushes: int) -> int:
    """How many clients may be connected, by the limit of descriptors and beside so many pushes. Each client may have a
    connection to the leader on its behalf."""
    return max(CONNECTIONS_MIN, (limit - pushes - RESERVE) // 2)


def pushes_max(total: int) -> int:
    """How many pushes may be on the wire where `total` are configured: half of the descriptors at most."""
    return max(1, min(total, raise_descriptors() // 2))
