"""Names of receivers: remembered, and shared out between topics, whatever the name servers do (FOUND B12)."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import node.push_wire.names
from node.push_wire.names import FAILED_S, FRESH_S, STALE_S, TOPIC, Names
from tests.waiting import until


class Servers:
    """Name servers that answer at once, fail, or are silent until `go_on`; and the time, which the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.silent: set[str] = set()
        self.failing: set[str] = set()
        self.go_on = threading.Event()
        self.shift_s = 0.0
        monkeypatch.setattr(socket, "getaddrinfo", self._getaddrinfo)
        monkeypatch.setattr(node.push_wire.names, "_now_s", lambda: asyncio.get_running_loop().time() + self.shift_s)

    def _getaddrinfo(self, host: str, port: int, **kinds: Any) -> list[Any]:
        self.asked.append(host)
        number = len(self.asked)
        if host in self.silent:
            self.go_on.wait(20)
        if host in self.failing:
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"10.0.0.{number}", port))]


@pytest.fixture(name="servers")
def _servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    return Servers(monkeypatch)


def run(servers: Servers, play: Callable[[Names], Awaitable[None]]) -> None:
    """Bounded; no thread is left waiting."""

    async def main() -> None:
        async with asyncio.timeout(20):
            await play(Names())

    try:
        asyncio.run(main())
    finally:
        servers.go_on.set()


async def addresses(names: Names, host: str, topic: int = 1) -> list[str]:
    """What a connection to it would try."""
    TOPIC.set((0, topic))
    return [each["host"] for each in await names.resolve(host, 80)]


def test_a_name_is_looked_up_once_while_it_is_fresh(servers: Servers) -> None:
    """By many at once, too; each gets its port."""

    async def play(names: Names) -> None:
        found = await asyncio.gather(*(names.resolve("a", port) for port in (80, 81)))
        assert [each["port"] for rows in found for each in rows] == [80, 81]
        assert await addresses(names, "a") == ["10.0.0.1"]
        assert servers.asked == ["a"]

    run(servers, play)


def test_a_known_name_outlives_its_time_while_it_is_looked_up_anew(servers: Servers) -> None:
    """Nobody waits for the look-up of a receiver that was reached before; its result serves when it is there, and a
    failure changes nothing until the name is too old."""

    async def play(names: Names) -> None:
        assert await addresses(names, "a") == ["10.0.0.1"]
        servers.shift_s += FRESH_S + 1
        assert await addresses(names, "a") == ["10.0.0.1"]
        await until(lambda: len(servers.asked) == 2 and not names._under_way)
        assert await addresses(names, "a") == ["10.0.0.2"]
        servers.failing.add("a")
        servers.shift_s += FRESH_S + 1
        assert await addresses(names, "a") == ["10.0.0.2"]
        await until(lambda: len(servers.asked) == 3 and not names._under_way)
        assert await addresses(names, "a") == ["10.0.0.2"]
        servers.shift_s += STALE_S
        with pytest.raises(OSError, match="try again"):
            await addresses(names, "a")

    run(servers, play)


def test_a_name_that_failed_is_not_asked_for_again_at_once(servers: Servers) -> None:
    """For a while; then it may be there."""

    async def play(names: Names) -> None:
        servers.failing.add("a")
        for _ in range(3):
            with pytest.raises(OSError, match="try again"):
                await addresses(names, "a")
        assert servers.asked == ["a"]
        servers.failing.clear()
        servers.shift_s += FAILED_S + 1
        assert await addresses(names, "a") == ["10.0.0.2"]

    run(servers, play)


def test_b12_silent_names_of_one_topic_hold_up_no_other(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """900 names that nobody resolves took all look-ups: pushes to 20 healthy names came after 24 s, or died."""
    monkeypatch.setattr(node.push_wire.names, "LOOKUPS_MAX", 16)
    monkeypatch.setattr(node.push_wire.names, "NEW_MAX", 12)
    monkeypatch.setattr(node.push_wire.names, "TOPIC_MAX", 5)
    servers.silent |= {f"s{number}" for number in range(40)}

    async def play(names: Names) -> None:
        assert await addresses(names, "known") == ["10.0.0.1"]
        silent = [asyncio.ensure_future(addresses(names, f"s{number}", 2)) for number in range(20)]
        await until(lambda: len(servers.asked) == 6)
        assert (names.waits("s0"), names.waits("s19")) == (False, True)
        assert await addresses(names, "new", 3) == ["10.0.0.7"]
        silent += [asyncio.ensure_future(addresses(names, f"s{number}", number)) for number in range(20, 40)]
        await until(lambda: len(servers.asked) == 14)
        waiting = asyncio.ensure_future(addresses(names, "newer", 3))
        await until(lambda: names.waits("newer"))
        servers.shift_s += FRESH_S + 1
        assert await addresses(names, "known") == ["10.0.0.1"], "a known one waits for nobody"
        await until(lambda: servers.asked[-1] == "known")
        silent.pop(19).cancel()
        servers.go_on.set()
        assert len(await waiting) == 1
        assert all(await asyncio.gather(*silent))
        assert "s19" not in servers.asked, "nobody waited for it any more"
        await until(lambda: not names._under_way)
        assert (names._new, names._by_topic, names._waiting_hosts) == (0, {}, {})

    run(servers, play)
