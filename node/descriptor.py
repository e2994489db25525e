"""How many files and connections the process may have open.

A process that runs out of descriptors cannot open its own files either, and a failed open of a file ends the node. So
the limit is raised as far as the system allows, and connections to receivers get a part of it.
"""

from __future__ import annotations

import resource


def raise_descriptors() -> int:
    """Raise the soft limit to the hard one; returns the limit that counts from now on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1 << 20
