"""Attacks one after the other, beside a run of faults. An attack goes on whatever the nodes answer, and after any
change of leader."""

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import aiohttp

from chaos.hostile.attacks import ATTACKS, AttackSetup
from cli.local.local_nodes import LocalNode

#: The attacks that need no receiver of webhooks on loopback.
CHOSEN: Final = tuple(name for name in ATTACKS if name not in ("receivers", "lookups", "ports"))
TURN_S: Final = 15.0
AGAIN_S: Final = 1.0
#: The share of the load of `hourwheel chaos hostile`: the run's own clients and faults share the machine.
SIZE: Final = 0.05
#: The errors that an attacker gets where nodes are killed and cut off.
_MET: Final = (aiohttp.ClientError, OSError, TimeoutError, KeyError, ValueError, AssertionError)


async def attack_in_turn(
    names: Sequence[str],
    nodes: Mapping[str, LocalNode],
    leader: Callable[[], str | None],
    say: Callable[[str], None],
) -> None:
    """Run the attacks of these names one after the other, TURN_S each, until cancelled. Without names do nothing.
    `leader` returns the node that was last known to lead."""
    timeout = aiohttp.ClientTimeout(total=10, sock_connect=2)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as http:
        for name in itertools.cycle(names):
            say(f"attack: {name}")
            with suppress(TimeoutError):
                async with asyncio.timeout(TURN_S):
                    while True:
                        there = tuple(nodes.values())
                        leading = nodes.get(leader() or "", there[0])
                        with suppress(*_MET):
                            await ATTACKS[name](AttackSetup(leading, there, http, SIZE, sound=False))
                        await asyncio.sleep(AGAIN_S)
