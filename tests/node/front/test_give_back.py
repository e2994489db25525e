"""Pulls whose client goes before the answer: what surely nobody got is there for the next one, at once."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from api.port.forward import ForwardAnswer, ForwardRequest
from api.port.port import ANONYMOUS, MessageIn, PullIn, TopicChange
from node.environment import Environment
from node.front.give_back import WAITS, GiveBack, is_pull
from node.front.pass_on import ANSWER_TIMEOUT_S
from node.node import Node
from node.port.loopback import framed_group
from tests.node.front.test_pass_on import request, with_leader
from tests.node.single_node import run_node
from tests.node.three_nodes import leader_of, run_nodes, to_leader_of
from tests.waiting import until

ONCE = TopicChange(retry={"max_attempts": 1})


@pytest.mark.parametrize(("border", "attempt"), [("direct", 1), ("framed", 2)])
def test_a_connection_that_closes_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, border: str, attempt: int
) -> None:
    """Its end was read and has not ended the wait yet, and then the message comes: the next consumer gets it, as a
    first attempt. Where the group cannot look at the connection, what it handed over is given back, uncounted."""
    monkeypatch.setattr(Environment, "fronted", lambda self, port: framed_group(port) if border == "framed" else port)

    async def play(node: Node) -> None:
        closing = False
        await node.front.schedule([MessageIn("t", b"0", delay_ms=3_600_000)], ANONYMOUS)
        request = PullIn("t", 1, 20_000, 60_000, gone=lambda: closing)
        gone = asyncio.ensure_future(node.front.pull(request, ANONYMOUS))
        await until(lambda: node.group.leader_term is not None and node.group.leader_term.pulling._waiters)
        next_one = asyncio.ensure_future(node.front.pull(PullIn("t", 1, 20_000), ANONYMOUS))
        closing = True
        await node.front.schedule([MessageIn("t", b"1")], ANONYMOUS)
        assert await gone == []
        (got,) = await next_one
        assert (got.body, got.attempt) == (b"1", attempt)

    run_node(tmp_path / "n1", play)


class Client:
    """A consumer that pulls over HTTP and can go at any moment."""

    def __init__(self, node: Node, document: dict[str, Any]) -> None:
        self._url = f"http://{node.config.http.listen}/v1/topics/t/pull"
        self._document = document
        self.pulling = asyncio.ensure_future(self._pull())

    async def _pull(self) -> Any:
        async with aiohttp.ClientSession() as http, http.post(self._url, json=self._document) as answer:
            return answer.status, await answer.json()

    async def go(self) -> None:
        """Close the connection."""
        self.pulling.cancel()
        await asyncio.wait([self.pulling])


class Late:
    """Answers to pulls reach the node that asked the leader, and are read by it only when `read` is set."""

    def __init__(self, node: Node) -> None:
        self.came, self.read = asyncio.Event(), asyncio.Event()
        self._send = node.forwarder._send  # type: ignore[attr-defined]
        node.forwarder._send = self._passed_on  # type: ignore[attr-defined]
        frames = to_leader_of(node)
        self._call = frames.call
        frames.call = self._called  # type: ignore[method-assign]

    async def _passed_on(self, address: str, request: ForwardRequest) -> ForwardAnswer | None:
        answer: ForwardAnswer | None = await self._send(address, request)
        await self._hold(pulls=is_pull(request))
        return answer

    async def _called(self, name: str, frame: bytes, wait: int) -> bytes:
        answer = await self._call(name, frame, wait)
        await self._hold(pulls=name == "pull")
        return answer

    async def _hold(self, *, pulls: bool) -> None:
        if pulls:
            self.came.set()
            await self.read.wait()


@pytest.mark.usefixtures("way")
def test_what_was_pulled_for_a_client_that_has_gone_is_given_back(tmp_path: Path) -> None:
    """The leader leased it and answered, and the client of the follower had gone by then: the next consumer gets it at
    once, though the lease is long and the policy allows one attempt."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        follower = next(node for node in nodes if node is not leader)
        await leader.front.put_topic("t", ONCE, create=True, if_match=None, principal=ANONYMOUS)
        late = Late(follower)
        await until(lambda: follower.group.raft.leader_id == leader.config.node_id)
        client = Client(follower, {"wait": "20s", "lease": "5m"})
        await leader.front.schedule([MessageIn("t", b"1")], ANONYMOUS)
        await late.came.wait()
        await client.go()
        late.read.set()
        (got,) = await leader.front.pull(PullIn("t", 1, 20_000), ANONYMOUS)
        assert got.body == b"1"

    run_nodes(tmp_path, scene)


@pytest.mark.usefixtures("direct", "way")
@pytest.mark.parametrize("leads", [True, False])
def test_a_consumer_that_closes_its_side_gets_what_is_ready(tmp_path: Path, leads: bool) -> None:
    """`nc -N` behind a follower never got a message: its pull ended on the way, and what it brought was given back.
    Where nothing is ready it waits for nothing. Behind a border of bytes its end comes before the answer does."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        node = next(node for node in nodes if (node is leader) == leads)
        await until(lambda: node.group.raft.leader_id == leader.config.node_id)
        await leader.front.schedule([MessageIn("t", b"1")], ANONYMOUS)
        got = [0]
        while not got[-1] and len(got) < 100:  # until it has become due
            got.append((await shut_pull(node)).count(b'"receipt"'))
        assert got[-1] == 1
        assert b'"receipt"' not in await shut_pull(node)

    run_nodes(tmp_path, scene)


async def shut_pull(node: Node) -> bytes:
    """The answer to a pull that would wait, whose client closes its side at once."""
    host, port = node.config.http.listen.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = b'{"wait":"30s","lease":"5m"}'
    head = b"POST /v1/topics/t/pull HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % (host.encode(), len(body)) + body)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200 ")
    return answer


def test_an_answer_that_comes_as_the_client_goes_is_given_back() -> None:
    """Its end was read and has not ended the request yet, so the answer is not written: the node gives back by itself,
    beside it. An answer that the client can get is left alone."""
    given: list[bytes] = []
    gone, back = False, asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (head := await reader.readuntil(b"\r\n\r\n")).split()[1] != b"/v1/topics/t/nack":
            body = b'{"messages": [{"id": "1", "receipt": "a"}, {"id": "2", "receipt": "b"}]}'
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        given.append(await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split()[0])))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        back.set()
        await reader.read()
        writer.close()

    async def play(forwarder: Any, leader: list[str | None]) -> None:
        nonlocal gone
        pull = ForwardRequest("POST", "/v1/topics/t/pull", {}, b"", lambda: gone)
        answer = await forwarder.forward(pull)
        assert (answer.status, answer.body.count(b"receipt")) == (200, 2)
        gone = True
        answer = await forwarder.forward(pull)
        assert (answer.status, answer.body) == (200, b'{"messages":[]}'), "it may be written, to who closed its side"
        await back.wait()
        assert given == [b'{"receipts":["a","b"],"delay":0,"counted":false}']

    asyncio.run(with_leader(serve, play))


@pytest.mark.parametrize("body", [b"<html>", b'{"messages": [{"id": "1"}]}'])
def test_an_answer_that_cannot_be_read_gives_nothing_back(body: bytes) -> None:
    """And nothing fails: whose answer it was has gone."""
    asked: list[ForwardRequest] = []
    wrong: list[dict[str, Any]] = []

    async def forward(request: ForwardRequest) -> ForwardAnswer:
        asked.append(request)
        return ForwardAnswer(200, {}, b"")

    async def post(address: str, request: ForwardRequest) -> ForwardAnswer | None:
        return await forward(request)

    async def play() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: wrong.append(context))
        before = asyncio.all_tasks()
        GiveBack(forward, post).unread(
            ForwardRequest("POST", "/v1/topics/t/pull", {}, b""), ForwardAnswer(200, {}, body)
        )
        ended = await asyncio.gather(*(asyncio.all_tasks() - before), return_exceptions=True)
        assert (ended, asked, wrong) == ([None], [], [])

    asyncio.run(play())


@pytest.mark.usefixtures("way")
def test_a_wait_ends_at_the_leader_when_the_followers_client_goes(tmp_path: Path) -> None:
    """Nothing is leased for it: what comes a moment later is a first attempt of who pulls then. Other waits of the same
    node go on."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        follower = next(node for node in nodes if node is not leader)
        await until(lambda: follower.group.raft.leader_id == leader.config.node_id)
        await leader.front.schedule([MessageIn("t", b"0", delay_ms=3_600_000)], ANONYMOUS)

        def waiting() -> int:
            assert leader.group.leader_term is not None
            return sum(len(waiters) for waiters in leader.group.leader_term.pulling._waiters.values())

        gone = Client(follower, {"wait": "30s"})
        await until(lambda: waiting() == 1)
        stays = Client(follower, {"wait": "30s"})
        await until(lambda: waiting() == 2)
        await gone.go()
        await until(lambda: waiting() == 1)
        await leader.front.schedule([MessageIn("t", b"1")], ANONYMOUS)
        status, document = await stays.pulling
        assert (status, [each["attempt"] for each in document["messages"]]) == (200, [1])

    run_nodes(tmp_path, scene)


@pytest.mark.parametrize("status", ["422 Unprocessable Entity", "200 OK"])
def test_a_leader_that_does_not_end_a_wait_has_its_connection_closed(status: str) -> None:
    """It may be of a release before, which knows no single wait, or never answer: a connection that closes ends the
    wait as well."""
    pulls, closed = asyncio.Event(), asyncio.Event()
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if WAITS.encode() in head:
            asked.append(head)
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            writer.close()
            return
        pulls.set()
        await reader.read()
        writer.close()
        closed.set()

    async def play(forwarder: Any, leader: list[str | None]) -> None:
        pull = asyncio.ensure_future(forwarder.forward(request(target="/v1/topics/t/pull", body=b"")))
        await pulls.wait()
        pull.cancel()
        async with asyncio.timeout(ANSWER_TIMEOUT_S / 2):
            await closed.wait()
        assert len(asked) == 1

    asyncio.run(with_leader(serve, play))
