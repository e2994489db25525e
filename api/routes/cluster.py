"""The handlers that change the cluster: they move its leadership and raise its level."""

import re
from typing import Final

from api.contract.checker import Fault, wrong_type
from api.contract.object import Fields
from api.contract.resource.cluster import TRANSFER, UPGRADE
from api.http.answer import JSON, Answer
from api.http.exchange import Exchange
from api.http.route import Route
from api.port.problem import Problem
from api.read.document import read_object
from api.read.member import read_level

_NODE_ID = re.compile(r"[^\x00-\x20\x7f]{1,64}")


def read_node(value: object) -> str:
    """Return a node's id, 1 to 64 characters without spaces. Raises `Fault`."""
    if type(value) is not str:
        raise wrong_type('a node\'s id such as "n2"', value)
    if _NODE_ID.fullmatch(value) is None:
        raise Fault("invalid-field", "a node's id is 1 to 64 characters without spaces, as GET /v1/cluster shows it")
    return value


_TRANSFER: Final = Fields({"to": read_node})


async def transfer(exchange: Exchange) -> Answer:
    """POST /v1/cluster/transfer: move leadership to node `to`, which leads when this answers. Without `to`, it is the
    node that lacks fewest entries of the Raft log."""
    exchange.query(())
    values = read_object(await exchange.read_optional((JSON,)), _TRANSFER)
    moved = await exchange.port.transfer(values.get("to"), principal=exchange.principal)
    return exchange.document(
        {
            "from": moved.from_node,
            "to": moved.to_node,
            "term_before": moved.term_before,
            "term_after": moved.term_after,
            "took_ms": moved.took_ms,
            "gap_ms": moved.gap_ms,
            "in_flight_carried": moved.in_flight_carried,
            "repeated": moved.repeated,
        }
    )


_UPGRADE: Final = Fields({"level": read_level})


async def upgrade(exchange: Exchange) -> Answer:
    """POST /v1/cluster/upgrade: raise the level, or refuse and name the node that cannot read it. A node that cannot
    ask the leader by calls tries to raise the level itself. If it does not lead, it passes the request on. It tries
    first because a leader of an older build has no such route."""
    exchange.query(())
    values = read_object(await exchange.read_optional((JSON,)), _UPGRADE)
    if exchange.port.reaches_leader():
        exchange.asks_elsewhere()
        return exchange.document({"level": await exchange.port.upgrade(values.get("level"))})
    try:
        return exchange.document({"level": await exchange.port.upgrade(values.get("level"))})
    except Problem as problem:
        if problem.code != "no-leader" or exchange.port.leader() in (None, exchange.port.node_id):
            raise
    return await exchange.server.pass_on(exchange)


ROUTES: Final = (
    Route("POST", "/v1/cluster/transfer", transfer, says=TRANSFER),
    Route("POST", "/v1/cluster/upgrade", upgrade, leader=False, says=UPGRADE),
)
"""The routes of this file."""
