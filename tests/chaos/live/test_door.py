"""Real nodes, and a stranger on the Raft port: whatever it says in others' names, the cluster goes on as it was."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from chaos.cluster.cluster import Cluster
from chaos.live.fuzz_frames import cluster_id_of
from cli.connection import Connection
from cli.local.local_nodes import LocalNode
from replication.wire.contacts import Contact, Contacts
from replication.wire.frame import HEADER, Message, encode_frame, encode_message
from replication.wire.handshake import Hello, Refusal, decode_greeting

WORST = (1 << 32) - 1
"""The largest term that a journal could store once, and the end of a cluster that adopted it."""
NUMBERS = {"stale_term": 7, "pre_vote_ok": 6, "response_vote": 2}
PATIENT = {"heartbeat_ms": 50, "trust_ms": 1500, "election_min_ms": 2500, "election_max_ms": 4000}
"""The tests hold terms against each other: an election that is the machine's own fault would be a false alarm."""
READS = {"entry": (1, 9)}
"""Whoever reads too little is refused for that alone."""
CROWD = 60
"""So many come at once; each waits until it is refused, and a node keeps 64 strangers."""
QUIET_S = 2.5
"""What an attack sets off has begun by then."""

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Run]]:
    """Three nodes that lead, for all tests of this file, and what runs a coroutine beside them."""
    with asyncio.Runner() as runner:
        cluster = Cluster(tmp_path_factory.mktemp("door"), settings={"raft": PATIENT})

        async def begin() -> None:
            await cluster.__aenter__()
            cluster.start()
            await cluster.wait_ready()
            await schedule(cluster.nodes[(await cluster.wait_leader()).node_id])

        runner.run(begin())
        try:
            yield cluster, runner.run
        finally:
            runner.run(cluster.__aexit__(None, None, None))


def say(node: LocalNode, hello: Hello, *frames: bytes) -> Hello | Refusal | None:
    """Hello and frames in one write, so that no real peer comes between them; the answer, if there is one."""
    with socket.create_connection((node.host, node.raft_port), 5) as line:
        line.sendall(b"".join(hello.encode()) + b"".join(frames))
        line.settimeout(5)
        heard = b""
        try:
            while len(heard) < HEADER.size or len(heard) < HEADER.unpack_from(heard)[0]:
                piece = line.recv(65536)
                if not piece:
                    return None
                heard += piece
        except OSError:
            return None
        _size, meta, _crc = HEADER.unpack_from(heard)
        return decode_greeting(heard[HEADER.size : HEADER.size + meta])


def raw(kind: str, term: int) -> bytes:
    """A message of one term, whatever the number."""
    return b"".join(encode_frame([NUMBERS[kind], term]))


def framed(message: Message) -> bytes:
    """A message that is well formed."""
    return b"".join(encode_message(message))


async def schedule(node: LocalNode) -> str:
    """One message is taken; its id."""
    document = {"topic": "t", "body": 1, "delay": "1h"}
    answer = await asyncio.to_thread(Connection(node.url).call, "POST", "/v1/messages", document)
    return str(answer.document["id"])


async def terms(cluster: Cluster) -> dict[str, int]:
    """The term of each node that runs."""
    pages = {node_id: await cluster.status(node_id) for node_id in cluster.running()}
    return {node_id: int(page["term"]) for node_id, page in pages.items() if page is not None}


async def unmoved(cluster: Cluster, attack: Callable[[], None]) -> None:
    """All run on in the term they were in, and what is scheduled afterwards is taken."""
    await cluster.wait_leader()
    before, running = await terms(cluster), sorted(cluster.running())
    await asyncio.to_thread(attack)
    leader, loop = cluster.nodes[(await cluster.wait_leader(timeout_s=10)).node_id], asyncio.get_running_loop()
    until_s = loop.time() + QUIET_S
    while loop.time() < until_s:
        await schedule(leader)
    assert sorted(cluster.running()) == running
    assert await terms(cluster) == before


def pairs(cluster: Cluster) -> list[tuple[LocalNode, str]]:
    """Each node, and each other that it could be told to hear."""
    return [(node, other) for node in cluster.nodes.values() for other in cluster.nodes if other != node.node_id]


def test_a_hello_without_cluster_id_moves_no_term(running: tuple[Cluster, Run]) -> None:
    """FOUND A1, first way: the id of a node is enough to be heard as that node, and one frame raises the term."""
    cluster, run = running

    def attack() -> None:
        for node, other in pairs(cluster):
            for term in (2, 9, WORST):
                say(node, Hello(other, node.node_id, b"any", None, READS), raw("stale_term", term))

    run(unmoved(cluster, attack))


def test_a_hello_without_cluster_id_takes_nobodys_place(running: tuple[Cluster, Run]) -> None:
    """The same without a message: a hello alone makes the leader believe that a follower's disk was wiped, and closes
    the real follower's connection. Said often enough, to the leader of each member, it costs the leadership."""
    cluster, run = running

    def attack() -> None:
        with ThreadPoolExecutor(CROWD) as crowd:
            said = [
                crowd.submit(say, node, Hello(other, node.node_id, b"store %d" % number, None, READS))
                for number in range(60)
                for node, other in pairs(cluster)
            ]
        assert [each.result() for each in said], "nobody came"

    run(unmoved(cluster, attack))


def test_nobody_is_told_the_cluster_id_of(running: tuple[Cluster, Run]) -> None:
    """FOUND A1, second way: the refusal of a wrong id has the right one in it, and so has the answer to none."""
    cluster, _run = running
    for node, other in pairs(cluster):
        known = cluster_id_of(node)
        for theirs in (b"x" * 16, None):
            answer = say(node, Hello(other, node.node_id, b"any", theirs, READS))
            assert answer is None or known.hex() not in repr(answer)
            assert answer is None or repr(known)[2:-1] not in repr(answer)


def test_contacts_of_a_stranger_cut_nobody_off(running: tuple[Cluster, Run]) -> None:
    """FOUND A1, contacts: a list of members as of entry 2^62 parts every node from the others until a restart."""
    cluster, run = running
    known = cluster_id_of(cluster.nodes["n1"])

    def attack() -> None:
        for node in cluster.nodes.values():
            me = next(other for other in cluster.nodes if other != node.node_id)
            members = (Contact(me, "127.0.0.1:1", ""), Contact(node.node_id, "127.0.0.1:1", ""))
            for index in (1 << 62, 1 << 39, 1000):
                say(node, Hello(me, node.node_id, b"any", known, READS, contacts=Contacts(index, members)))

    run(unmoved(cluster, attack))


def test_no_number_ends_the_cluster(running: tuple[Cluster, Run]) -> None:
    """FOUND A1, third way: even in the name of a member that is down, by one who knows the cluster id, a term that no
    cluster reaches is refused by name. It was written to every disk, and the node that stood for the next one ended."""
    cluster, run = running
    known = cluster_id_of(cluster.nodes["n1"])

    async def scene() -> None:
        leader = (await cluster.wait_leader()).node_id
        away, other = (node_id for node_id in cluster.nodes if node_id != leader)
        await cluster.stop(away)

        def attack() -> None:
            for node_id in (leader, other):
                node = cluster.nodes[node_id]
                for kind in NUMBERS:
                    for term in (WORST, WORST - 1, 1 << 31, (1 << 31) - 1, 1 << 21):
                        say(node, Hello(away, node_id, b"any", known, READS), raw(kind, term))

        await unmoved(cluster, attack)
        cluster.start(away)
        await cluster.wait_ready()
        log = cluster.nodes[leader].log_path.read_text()
        assert "is too far beyond term" in log or "stale_term: term is" in log

    run(scene())
