"""Runs attacks in a process of their own, so that their load does not slow the event loop of the clients that
behave."""

import asyncio
import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Final, Self

import aiohttp

from chaos.hostile.attacks import ATTACKS, AttackSetup
from cli.local.local_nodes import LocalNode

#: A fork would copy this process's event loop and threads.
_SPAWN: Final = multiprocessing.get_context("spawn")


class Attacker:
    """Runs the attacks of these names at once, against this leader and its cluster. `size` is their share of the full
    attack. Use as `async with`, which begins them, and call `end` inside it."""

    def __init__(self, names: Sequence[str], leader: LocalNode, nodes: Sequence[LocalNode], size: float) -> None:
        self._said, self._says = _SPAWN.Pipe(duplex=False)
        args = self._says, tuple(names), leader, tuple(nodes), size
        self._process = _SPAWN.Process(target=_run, args=args, daemon=True)

    async def __aenter__(self) -> Self:
        self._process.start()
        self._says.close()  # so that the pipe ends with the process
        assert await asyncio.to_thread(self._said.recv) is None, "it says first that it begins"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._process.kill()
        await asyncio.to_thread(self._process.join)
        self._said.close()

    async def end(self) -> list[str]:
        """Stop the attacks. Return their errors."""
        self._process.terminate()
        try:
            failed: list[str] = await asyncio.to_thread(self._said.recv)
        except EOFError:
            await asyncio.to_thread(self._process.join)
            return [f"the attacker ended with status {self._process.exitcode}"]
        return failed


def _run(
    says: Connection, names: tuple[str, ...], leader: LocalNode, nodes: tuple[LocalNode, ...], size: float
) -> None:
    says.send(asyncio.run(_attack(says, names, leader, nodes, size)))


async def _attack(
    says: Connection, names: tuple[str, ...], leader: LocalNode, nodes: tuple[LocalNode, ...], size: float
) -> list[str]:
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=60, sock_connect=5)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
        setup = AttackSetup(leader, nodes, http, size)
        attacks = [asyncio.create_task(_endless(name, setup)) for name in names]
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        says.send(None)
        await ended.wait()
        for each in attacks:
            each.cancel()
        results = await asyncio.gather(*attacks, return_exceptions=True)
        return [repr(each) for each in results if each is not None and not isinstance(each, asyncio.CancelledError)]


async def _endless(name: str, setup: AttackSetup) -> None:
    await ATTACKS[name](setup)
