"""Which cluster a founder belongs to that was stopped between Genesis in its log and Genesis applied."""

from __future__ import annotations

from pathlib import Path

from chaos.cluster.ports import free_ports
from replication.command.entry import encode_entry
from replication.command.genesis import Genesis
from replication.journal.journal import Journal
from replication.journal.logged_cluster import logged_clusters
from storage.file.disk import Disk
from tests.replication.socket_node import run, transport

CLUSTER, LOST = b"c" * 16, b"l" * 16


def genesis(cluster_id: bytes) -> bytes:
    """The entry that founds it."""
    command = Genesis(cluster_id, bytes(32), ("n1", "n2"), retention_ms=1, key_retention_ms=1)
    return encode_entry(group=0, term=1, node=1, now_ms=1, sections=[command.pack()])


def test_the_genesis_of_the_log_is_found(tmp_path: Path) -> None:
    """Behind no-ops and beside what is no entry; not what is applied already."""
    journal = Journal.open(tmp_path, disk=Disk())
    for index, command in enumerate((b"\x01", b"\x01", b"junk", genesis(CLUSTER), b"\x01"), 1):
        journal.add(command, index, 1)
    assert logged_clusters(journal, 1) == {CLUSTER}
    assert logged_clusters(journal, 4) == logged_clusters(journal, 5) == set()
    journal.close()


def test_a_founder_says_the_id_that_its_log_proves() -> None:
    """A peer says an id. The node whose log holds that very Genesis says it too, so that its votes count; another id,
    or none in the log, changes nothing."""

    async def test() -> None:
        ports = free_ports(2)
        peers = [("127.0.0.1", port) for port in ports]
        async with (
            transport("n1", {"n2": peers[1]}, port=ports[0], cluster_id=CLUSTER) as (one, heard),
            transport("n2", {"n1": peers[0]}, port=ports[1]) as (two, _),
        ):
            asked: list[bytes] = []
            two.logged = lambda cluster_id: asked.append(cluster_id) or cluster_id == LOST  # type: ignore[func-returns-value]
            await heard.until(lambda: (line := one._incoming.get("n2")) is not None and line.guest)
            await heard.until(lambda: len(asked) > 1)
            assert one._incoming["n2"].guest
            two.logged = lambda cluster_id: cluster_id == CLUSTER
            await heard.until(lambda: (line := one._incoming.get("n2")) is not None and not line.guest)

    run(test())
