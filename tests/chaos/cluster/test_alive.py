"""A node that ends while its cluster is waited for."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from chaos.cluster.cluster import Cluster, ClusterFailed


def test_a_process_that_somebody_else_killed_is_told_of(tmp_path: Path) -> None:
    """By a signal that the harness did not send, as the kernel sends one where memory is short; one that it sent is no
    news."""

    async def run() -> None:
        async def never() -> bool:
            return False

        async with Cluster(tmp_path, 1) as cluster:
            cluster.start()
            await cluster.wait_ready()
            await cluster.kill("n1")
            with pytest.raises(ClusterFailed, match=r"waited 0\.3 s for nothing"):
                await cluster.until(never, "nothing", 0.3)
            cluster.start("n1")
            await cluster.wait_ready()
            os.kill(cluster.pid("n1"), signal.SIGKILL)
            with pytest.raises(ClusterFailed, match="n1 ended by itself"):
                await cluster.until(never, "nothing", 20.0)

    asyncio.run(run())
