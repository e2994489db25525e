"""Messages in every state on a whole node."""

from api.port.message import MessageView
from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn, TopicChange
from node.node import Node
from storage.format.position import HOUR_MS


async def schedule(node: Node, messages: list[MessageIn]) -> list[str]:
    """Schedule these; their ids."""
    result = await node.front.schedule(messages, ANONYMOUS)
    return [id.decode() for id in result.ids.tolist()]


async def put_topic(node: Node, name: str, change: TopicChange) -> None:
    """Make a topic with these settings."""
    await node.front.put_topic(name, change, create=True, if_match=None, principal=ANONYMOUS)


async def views_of(node: Node, ids: list[str]) -> list[MessageView]:
    """The messages as GET shows them."""
    return [await node.front.message(id, local=False, principal=ANONYMOUS) for id in ids]


async def everything(node: Node) -> list[str]:
    """Messages of two topics in every state and over three hours, some of them moved; their ids."""
    await put_topic(node, "a", TopicChange(retry={"max_attempts": 2, "min_backoff_ms": 1_000}))
    hours = [row % 3 * HOUR_MS + 600_000 for row in range(30)]
    tags = [("eu",), ("us",), ("eu", "vip"), ()]
    later = [MessageIn("ab"[row % 2], b"1", delay_ms=ms, tags=tags[row % 4]) for row, ms in enumerate(hours)]
    ids = await schedule(node, later)
    now = await schedule(node, [MessageIn("a", b"2", tags=tags[row % 4]) for row in range(12)])
    for id in ids[:6]:
        await node.front.reschedule(id, due_ms=None, delay_ms=3 * HOUR_MS, if_match=None, principal=ANONYMOUS)
    for id in ids[4:8]:
        await node.front.cancel(id, if_match=None, principal=ANONYMOUS)
    pulled: list[Delivery] = []
    while len(pulled) < 10:
        pulled += await node.front.pull(PullIn("a", 10 - len(pulled), 5_000, 3_600_000), ANONYMOUS)
    receipts = [each.receipt for each in pulled]
    await node.front.ack("a", receipts[:3], ANONYMOUS)
    await node.front.nack("a", receipts[3:6], delay_ms=0, principal=ANONYMOUS)
    again: list[Delivery] = []
    while len(again) < 3:
        found = await node.front.pull(PullIn("a", 5, 5_000, 3_600_000), ANONYMOUS)
        again += [each for each in found if each.attempt == 2]
    receipts = [each.receipt for each in again]
    await node.front.ack("a", receipts[:1], ANONYMOUS)
    await node.front.nack("a", receipts[1:], delay_ms=0, principal=ANONYMOUS)  # their second failure: dead
    return ids + now + await schedule(node, [MessageIn("b", b"3") for _ in range(5)])
