"""Backups over a real socket."""

from typing import Any

import pytest

from tests.api.harness import run, running
from tests.api.memory_port import MemoryPort


def test_snapshot() -> None:
    """Into the configured directory or one below it; answered by the node that is asked, leader or not."""

    async def story() -> None:
        port = MemoryPort()
        port.leading = False
        async with running(port) as client:
            for sent, directory in ((None, "/backups/1"), ({}, "/backups/1"), ({"directory": "a/b"}, "/backups/a/b/1")):
                reply = await client.send("POST", "/v1/cluster/snapshot", sent)
                assert reply.status == 201
                assert (reply.json["node"], reply.json["directory"]) == ("n1", directory)
                assert reply.headers["location"] == f"file://n1{directory}"
                assert reply.headers["etag"] == f'"{reply.json["applied_index"]}"'
                assert {"cluster_id", "applied_index", "applied_term", "bytes", "files", "took_ms"} < reply.json.keys()
            assert client.server._listener.watch._waiting == 0, (
                "each lowered the count of polls, until none was watched"
            )

    run(story())


@pytest.mark.parametrize(
    ("sent", "code", "pointer"),
    [
        ({"directory": 3}, "invalid-field", "/directory"),
        ({"directory": ""}, "invalid-field", "/directory"),
        ({"directory": "a\0b"}, "invalid-field", "/directory"),
        ({"directory": "a" * 1025}, "invalid-field", "/directory"),
        ({"directory": "a/" + "ä" * 128}, "invalid-field", "/directory"),
        ({"path": "a"}, "unknown-field", "/path"),
    ],
)
def test_bad_snapshots(sent: dict[str, Any], code: str, pointer: str) -> None:
    """The field at fault is named."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("POST", "/v1/cluster/snapshot", sent)
            assert (reply.status, reply.json["code"]) == (422, code)
            assert [error["pointer"] for error in reply.json["errors"]] == [pointer]
            assert client.server._listener.watch._waiting == 0

    run(story())
