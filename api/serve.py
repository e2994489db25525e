"""Starts the HTTP server of a node, with every route of the contract."""

from typing import Final

from api.http.server import Server
from api.port.port import Port
from api.routes import (
    backup,
    cluster,
    count,
    dead,
    leadership,
    ledger,
    member,
    message,
    message_list,
    node,
    operation,
    pull,
    receipt,
    topic,
    wheel,
)

ROUTES: Final = (
    *message.ROUTES,
    *message_list.ROUTES,
    *topic.ROUTES,
    *pull.ROUTES,
    *receipt.ROUTES,
    *dead.ROUTES,
    *ledger.ROUTES,
    *count.ROUTES,
    *operation.ROUTES,
    *wheel.ROUTES,
    *cluster.ROUTES,
    *member.ROUTES,
    *backup.ROUTES,
    *leadership.ROUTES,
    *node.ROUTES,
)


async def serve(port: Port, host: str, listen_port: int) -> Server:
    """Return a server that listens on `host:listen_port` (0: any free port, see `Server.address`). Raises
    `ListenFailed`."""
    server = Server(port, ROUTES)
    await server.listen(host, listen_port)
    return server
