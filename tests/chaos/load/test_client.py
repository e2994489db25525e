"""What a call over HTTP came to, as far as its client can know."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from chaos.cluster.local_nodes import LOOPBACK, LocalNode
from chaos.load.client import HttpClient

ANSWER = b'HTTP/1.1 404 Not Found\r\nContent-Length: 26\r\n\r\n{"code":"unknown-message"}'


class Dying:
    """A node that answers one request, and dies when it has taken the second."""

    def __init__(self) -> None:
        self.taken = 0
        self.dead = asyncio.Event()

    async def serve(self) -> int:
        """Returns its port."""
        self._server = await asyncio.start_server(self._answer, LOOPBACK, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            self.taken += 1
            if self.taken == 1:
                writer.write(ANSWER)
        self._server.close()
        writer.close()
        await writer.wait_closed()
        self.dead.set()


@pytest.mark.parametrize("call", ["cancel", "reschedule"])
def test_a_command_that_a_node_took_before_it_died_is_unknown(call: str) -> None:
    """aiohttp sends a DELETE again where a kept connection breaks: that nobody listens then says nothing of the first.
    A run under power cuts called such a cancel refused, and its message lost."""

    async def run() -> str:
        dying = Dying()
        node = LocalNode("n1", await dying.serve(), 0, Path())
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as http:
            client = HttpClient(node, http)
            assert (await client.cancel("0B")).code == "unknown-message"
            outcome = await (client.cancel("0A") if call == "cancel" else client.reschedule("0A", 1, None))
        await dying.dead.wait()
        assert dying.taken == 2
        return outcome.kind

    assert asyncio.run(run()) == "unknown"


def test_a_command_to_nobody_is_refused() -> None:
    """No connection came to be, so nothing was done; of a DELETE the client cannot tell."""

    async def run(port: int) -> tuple[str, str]:
        async with aiohttp.ClientSession() as http:
            client = HttpClient(LocalNode("n1", port, 0, Path()), http)
            return (await client.reschedule("0A", 1, None)).kind, (await client.cancel("0A")).kind

    async def closed_port() -> int:
        server = await asyncio.start_server(lambda reader, writer: None, LOOPBACK, 0)
        port: int = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        return port

    assert asyncio.run(run(asyncio.run(closed_port()))) == ("refused", "unknown")
