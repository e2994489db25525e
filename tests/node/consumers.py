"""Consumers of a single node, without HTTP: what they were handed, and what they say of it."""

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn
from node.node import Node
from node.port.receipt import ReceiptColumns
from storage.file.delivery_file import delivery_files, read_delivery_file
from storage.file.disk import Disk
from storage.format.array import U64
from storage.format.states import LEASED
from storage.record.delivery_record import END
from tests.waiting import until

Ask = Callable[[Node, Sequence[str]], Coroutine[Any, Any, Sequence[str]]]
ASKS: dict[str, Ask] = {
    "acked": lambda node, texts: node.front.ack("t", texts, ANONYMOUS),
    "nacked": lambda node, texts: node.front.nack("t", texts, delay_ms=3_600_000, principal=ANONYMOUS),
    "extended": lambda node, texts: node.front.extend("t", texts, lease_ms=3_600_000, principal=ANONYMOUS),
}


async def handed_over(node: Node, count: int, topic: str = "t", lease_ms: int = 60_000) -> list[Delivery]:
    """New messages, pulled."""
    await node.front.schedule([MessageIn(topic, b"1")] * count, ANONYMOUS)
    return await pulled(node, count, topic, lease_ms)


async def pulled(node: Node, count: int, topic: str = "t", lease_ms: int = 60_000) -> list[Delivery]:
    """So many of those that are there."""
    got: list[Delivery] = []
    while len(got) < count:
        got += await node.front.pull(PullIn(topic, count - len(got), 5_000, lease_ms), ANONYMOUS)
    return got


async def leased(node: Node, receipts: Sequence[str]) -> U64:
    """Where these stand, once all their leases are written."""
    assert node.group.leader_term is not None
    _, claims = node.group.leader_term.receipts.read(receipts)
    named = ReceiptColumns.of(claims)
    await until(lambda: bool((node.group.store.state_only(named.position) == LEASED).all()))
    return named.position


def receipts_of(deliveries: Sequence[Delivery]) -> list[str]:
    """Their texts."""
    return [each.receipt for each in deliveries]


def ends_logged(directory: Path) -> list[Any]:
    """The records of ends in the delivery log of the node that was in this directory."""
    disk, deliveries = Disk(), directory / "deliveries"
    parts = [read_delivery_file(deliveries / file.name, disk) for file in delivery_files(deliveries, disk)]
    return [row for part in parts for rows, _ in part for row in rows if row["kind"] == END]
