"""Measure how much of a core a node uses: all its threads, user and system, from /proc."""

import asyncio
import os
import time
from pathlib import Path

from chaos.cluster.cluster import Cluster


async def share_of_leader(cluster: Cluster, seconds: float) -> float:
    """Return the share of a core, in per cent, that the leader's process uses during `seconds`."""
    pid = cluster.pid((await cluster.wait_leader()).node_id)
    begun_s, used_s = time.perf_counter(), processor_s(pid)
    await asyncio.sleep(seconds)
    return round(100 * (processor_s(pid) - used_s) / (time.perf_counter() - begun_s), 2)


def processor_s(pid: int) -> float:
    """Return the processor time of a process since it began."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")
