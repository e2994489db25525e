"""Attacks run in a process of their own; what fails there is told here."""

import asyncio
from pathlib import Path

from chaos.hostile.attacker import Attacker
from cli.local.local_nodes import LocalNode


def test_an_attack_that_fails_is_told(tmp_path: Path) -> None:
    """Else a suite would pass in which nothing attacks."""
    node = LocalNode("n1", 1, 1, tmp_path)

    async def attacked() -> list[str]:
        async with Attacker(["no such attack"], node, [node], 1.0) as attacker:
            return await attacker.end()

    assert asyncio.run(attacked()) == ["KeyError('no such attack')"]


def test_an_attacker_that_dies_is_told(tmp_path: Path) -> None:
    """For want of memory, say."""
    node = LocalNode("n1", 1, 1, tmp_path)

    async def attacked() -> list[str]:
        async with Attacker(["polls"], node, [node], 1.0) as attacker:
            attacker._process.kill()
            return await attacker.end()

    assert asyncio.run(attacked()) == ["the attacker ended with status -9"]
