"""Redrives on a whole node."""

from typing import Any

from api.port.port import ANONYMOUS
from api.port.queries import OperationIn, OperationView
from node.node import Node
from tests.waiting import until


async def redrive(node: Node, *topics: str, **more: Any) -> OperationView:
    """Redrive what matches, once the cluster's level has operations; the operation at its end."""
    await until(lambda: node.group.machine.level >= 4, what="level 4")
    wish = OperationIn(kind="redrive", topics=topics or ("t",), wait_s=30, **more)
    return await node.front.begin_operation(wish, principal=ANONYMOUS)
