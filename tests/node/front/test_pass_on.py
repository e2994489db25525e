"""Forwarding, against real sockets: sent once, ended when the leader changes, honest about what is not known."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from api.port.forward import ForwardAnswer, ForwardRequest
from api.port.problem import Problem
from node.front.pass_on import Forwarder
from tests.waiting import until

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def with_leader(serve: Serve, play: Callable[[Forwarder, list[str | None]], Awaitable[None]]) -> None:
    """Run `play` with a forwarder whose leader is a real socket served by `serve`."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    leader: list[str | None] = [f"{host}:{port}"]
    forwarder = Forwarder(lambda: leader[0])
    await forwarder.start()
    try:
        await play(forwarder, leader)
    finally:
        await forwarder.close()
        server.close()


def request(method: str = "POST", target: str = "/v1/messages", body: bytes = b"{}") -> ForwardRequest:
    """A request on its way."""
    return ForwardRequest(method, target, {"Content-Type": "application/json"}, body)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Read one request's head, answer 201 with the head as the body, keep the connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n" % len(head) + head)
    await writer.drain()
    return head


def test_path_and_query_arrive_as_they_came() -> None:
    """Quoting is the client's: nothing on the way may undo or repeat it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(reader, writer)
        writer.close()

    async def play(forwarder: Forwarder, leader: list[str | None]) -> None:
        got: ForwardAnswer = await forwarder.forward(request(target="/v1/topics/a%2Fb?x=%20y"))
        assert got.status == 201
        assert got.body.startswith(b"POST /v1/topics/a%2Fb?x=%20y HTTP/1.1\r\n")

    asyncio.run(with_leader(serve, play))


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
def test_a_request_is_sent_once_even_when_a_kept_connection_breaks(method: str) -> None:
    """The second request on a kept connection is read and not answered: unknown, and never sent again."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await answer(reader, writer))
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async def play(forwarder: Forwarder, leader: list[str | None]) -> None:
        await forwarder.forward(request(method, body=b""))
        with pytest.raises(Problem) as refused:
            await forwarder.forward(request(method, body=b""))
        assert refused.value.code == "outcome-unknown"
        assert len(seen) == 2

    asyncio.run(with_leader(serve, play))


@pytest.mark.parametrize(
    ("method", "target", "code"),
    [
        ("POST", "/v1/messages", "outcome-unknown"),
        ("POST", "/v1/topics/t/pull?x", "outcome-unknown"),
        ("GET", "/v1/messages/x", "no-leader"),
    ],
)
def test_what_is_under_way_ends_when_another_node_leads(method: str, target: str, code: str) -> None:
    """A leader that does not answer any more holds nobody once another one is known."""
    arrived = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        await reader.read()
        writer.close()

    async def play(forwarder: Forwarder, leader: list[str | None]) -> None:
        waiting = asyncio.ensure_future(forwarder.forward(request(method, target, b"")))
        await arrived.wait()
        leader[0] = "127.0.0.1:1"
        forwarder.leader_changed()
        with pytest.raises(Problem) as refused:
            await waiting
        assert refused.value.code == code

    asyncio.run(with_leader(serve, play))


def refused(code: str) -> bytes:
    """A 503 with this code."""
    body = b'{"code": "%s"}' % code.encode()
    return b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize("code", ["no-leader", "draining"])
def test_a_leader_that_did_nothing_is_asked_again_or_its_successor_is(code: str) -> None:
    """It gives leadership away, or is not established yet: both say that nothing was done."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            seen.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(refused(code))
        await answer(reader, writer)
        writer.close()

    async def play(forwarder: Forwarder, leader: list[str | None]) -> None:
        assert (await forwarder.forward(request(body=b""))).status == 201
        assert len(seen) == 3

    asyncio.run(with_leader(serve, play))


@pytest.mark.parametrize("text", [refused("disk-full"), b"HTTP/1.1 503 No\r\nContent-Length: 1\r\n\r\n{"])
def test_other_refusals_are_the_clients(text: bytes) -> None:
    """A full disk is no other leader's either, and what cannot be read is passed on as it is."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(text)
        await writer.drain()
        writer.close()

    async def play(forwarder: Forwarder, leader: list[str | None]) -> None:
        assert (await forwarder.forward(request(body=b""))).status == 503

    asyncio.run(with_leader(serve, play))


def test_a_leader_that_goes_on_refusing_is_believed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """After as long as one waits for a leader the client gets the refusal."""
    monkeypatch.setattr("node.front.pass_on.LEADER_WAIT_S", 0.1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(refused("no-leader"))
        await writer.drain()
        writer.close()

    async def play(forwarder: Forwarder, leader: list[str | None]) -> None:
        assert (await forwarder.forward(request(body=b""))).body == b'{"code": "no-leader"}'

    asyncio.run(with_leader(serve, play))


@pytest.mark.parametrize(("target", "delay_s"), [("/v1/messages", 0.0), ("/v1/cluster/transfer", 0.4)])
def test_what_the_former_leader_answers_still_comes(target: str, delay_s: float) -> None:
    """An answer on its way when the leader changes arrives; a transfer's is waited for, it can only come afterwards."""
    arrived, changed = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        await changed.wait()
        changed_s = asyncio.get_running_loop().time()
        await until(lambda: asyncio.get_running_loop().time() >= changed_s + delay_s)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async def play(forwarder: Forwarder, leader: list[str | None]) -> None:
        waiting = asyncio.ensure_future(forwarder.forward(request(target=target, body=b"")))
        await arrived.wait()
        leader[0] = "127.0.0.1:1"
        forwarder.leader_changed()
        changed.set()
        assert (await waiting).status == 200

    asyncio.run(with_leader(serve, play))


def test_a_leader_that_takes_no_connection_got_nothing() -> None:
    """Refused connections are no-leader: the client may try again without a key."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def play(forwarder: Forwarder, leader: list[str | None]) -> None:
        leader[0] = "127.0.0.1:1"
        with pytest.raises(Problem) as refused:
            await forwarder.forward(request())
        assert refused.value.code == "no-leader"

    asyncio.run(with_leader(serve, play))


def test_a_request_waits_for_a_leader_to_be_elected() -> None:
    """Nothing was sent yet, so the request goes to whoever is elected meanwhile."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(reader, writer)
        writer.close()

    async def play(forwarder: Forwarder, leader: list[str | None]) -> None:
        address, leader[0] = leader[0], None
        waiting = asyncio.ensure_future(forwarder.forward(request()))
        await asyncio.sleep(0)
        leader[0] = address
        forwarder.leader_changed()
        assert (await waiting).status == 201

    asyncio.run(with_leader(serve, play))


def test_a_leader_that_is_gone_and_not_yet_given_up_is_waited_for() -> None:
    """No connection, so nothing was sent: the request goes to the leader elected next, through a time without one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(reader, writer)
        writer.close()

    async def play(forwarder: Forwarder, leader: list[str | None]) -> None:
        successor, leader[0] = leader[0], "127.0.0.1:1"
        refused, change = asyncio.Event(), forwarder._change

        async def noted(deadline: float, refusal: str) -> None:
            refused.set()
            await change(deadline, refusal)

        forwarder._change = noted  # type: ignore[method-assign]
        waiting = asyncio.ensure_future(forwarder.forward(request()))
        await refused.wait()
        await asyncio.sleep(0)
        assert not waiting.done()
        for known in (None, successor):
            leader[0] = known
            forwarder.leader_changed()
            await asyncio.sleep(0)
        assert (await waiting).status == 201

    asyncio.run(with_leader(serve, play))
