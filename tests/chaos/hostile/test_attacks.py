"""The attacks of `make hostile` in small, all at once, on three real nodes: who is late is judged there alone."""

import asyncio
from pathlib import Path

from chaos.cluster.cluster import Cluster
from chaos.hostile.attacks import ATTACKS
from chaos.hostile.run import SILENT, attack
from chaos.hostile.verdict import Verdict
from chaos.load.webhooks import PUSH_SETTINGS


def test_who_behaves_is_served_beside_every_attack(tmp_path: Path) -> None:
    """Nothing that was accepted is lost or comes twice, nobody is refused, and no node grows."""

    async def attacked() -> Verdict:
        async with Cluster(tmp_path, settings=PUSH_SETTINGS) as cluster:
            cluster.start()
            await cluster.wait_ready()
            await cluster.wait_raised()
            return await attack(
                cluster, [name for name in ATTACKS if name not in SILENT], before_s=2, during_s=8, after_s=1, size=0.02
            )

    verdict = asyncio.run(attacked())
    assert verdict.wrong == []
    assert verdict.figures["pull_p99_ms"] > 0
    assert verdict.figures["push_p99_ms"] > 0
