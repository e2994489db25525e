"""Bounds on the files and connections that the process may have open.

A process that has no file descriptors left cannot open its own files, and that ends the node. So the limit is raised as
far as the system allows. Connections to receivers and connections of clients get a part of it each.
"""

from __future__ import annotations

import resource
from typing import Final

#: Descriptors for the node's own files and for connections to its peers.
RESERVE: Final = 256
CONNECTIONS_MIN: Final = 16
#: OPEN_MAX of macOS: a process may have no more there, whatever the hard limit says.
OPEN_MAX: Final = 10_240


def raise_descriptors() -> int:
    """Raise the soft limit of the process's file descriptors to the hard one. Return the limit that holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except ValueError:  # on macOS, where the hard limit is infinite and no process may have it
            most = max(soft, OPEN_MAX)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            return most
    return hard if hard != resource.RLIM_INFINITY else 1 << 20


def connections_max(limit: int, pushes: int) -> int:
    """How many clients may be connected. `limit` is the limit of descriptors, and `pushes` how many pushes may be on
    the wire.

    Each client may need a second connection, on which this node passes its request on to the leader.
    """
    return max(CONNECTIONS_MIN, (limit - pushes - RESERVE) // 2)


def pushes_max(total: int) -> int:
    """How many pushes may be on the wire. It is `total`, the configured number, but at most half as many as the process
    may have descriptors.
    """
    return max(1, min(total, raise_descriptors() // 2))
