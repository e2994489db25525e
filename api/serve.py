"""The server of a node: every route of the contract, on a socket."""

from typing import Final

from api import (
    cluster_route,
    count_route,
    dead_route,
    handing_on_route,
    ledger_route,
    member_route,
    message_route,
    node_route,
    pull_route,
    receipt_route,
    snapshot_route,
    topic_route,
)
from api.port import Port
from api.server import Server

ROUTES: Final = (
    *message_route.ROUTES,
    *topic_route.ROUTES,
    *pull_route.ROUTES,
    *receipt_route.ROUTES,
    *dead_route.ROUTES,
    *ledger_route.ROUTES,
    *count_route.ROUTES,
    *cluster_route.ROUTES,
    *member_route.ROUTES,
    *snapshot_route.ROUTES,
    *handing_on_route.ROUTES,
    *node_route.ROUTES,
)


async def serve(port: Port, host: str, listen_port: int) -> Server:
    """A running server on `host:listen_port` (0: any free port, see `Server.address`). `ListenFailed` if it cannot."""
    server = Server(port, ROUTES)
    await server.listen(host, listen_port)
    return server
