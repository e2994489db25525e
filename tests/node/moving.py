"""What scenes need that move leadership on purpose: the other nodes, a message, a disk that stands still."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from api.port.port import ANONYMOUS, MessageIn
from node.node import Node
from tests.waiting import WITHIN_S


def followers(nodes: list[Node], leader: Node) -> list[Node]:
    """The others."""
    return [node for node in nodes if node is not leader]


async def schedule(node: Node) -> str:
    """One message, due now."""
    result = await node.front.schedule([MessageIn("t", b"1")], ANONYMOUS)
    return bytes(result.ids[0]).decode()


@contextmanager
def stuck_disk(node: Node) -> Iterator[threading.Event]:
    """The node's journal is not written from here on, until the event is set or the block ends."""
    let_go = threading.Event()
    real = node.group.disk.fdatasync

    def wait(fd: int) -> None:
        let_go.wait(WITHIN_S)
        real(fd)

    node.group.disk.fdatasync = wait  # type: ignore[method-assign]
    try:
        yield let_go
    finally:
        let_go.set()
        node.group.disk.fdatasync = real  # type: ignore[method-assign]
