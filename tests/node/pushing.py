"""What tests of pushes by whole nodes share."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from api.port.message import MessageView
from api.port.port import ANONYMOUS, MessageIn, TopicChange
from node.node import Node
from tests.node.single_node import run_node

LOOPBACK = {"allow": ["127.0.0.0/8"]}
FAST = {"min_backoff_ms": 10, "max_backoff_ms": 20}


async def put(node: Node, topic: str, url: str | None, **settings: Any) -> None:
    """A topic in push mode."""
    target = {"url": url, **settings.pop("target", {})} if url else settings.pop("target", None)
    change = TopicChange(mode="push", target=target, retry=settings.pop("retry", FAST), **settings)
    await node.front.put_topic(topic, change, create=True, if_match=None, principal=ANONYMOUS)


async def schedule(node: Node, *messages: MessageIn) -> list[str]:
    """Their ids."""
    result = await node.front.schedule(messages, ANONYMOUS)
    return [id.decode() for id in result.ids.tolist()]


async def view(node: Node, id: str) -> MessageView:
    """The message as the API shows it."""
    return await node.front.message(id, local=False, principal=ANONYMOUS)


def in_state(node: Node, id: str, state: str) -> Callable[[], Awaitable[bool]]:
    """Whether the message has come to this state."""

    async def met() -> bool:
        await asyncio.sleep(0)  # hundreds that have come to it are no one step of the loop
        return (await view(node, id)).state == state

    return met


def play(directory: Path, scene: Callable[[Node], Awaitable[None]], **push: Any) -> None:
    """Run a scene on a node that may push to loopback."""
    run_node(directory, scene, push={**LOOPBACK, **push})
