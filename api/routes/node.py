"""The handlers about this node and its cluster. Every node answers them itself, also without a leader.

`/livez` says that the process runs its loop, `/readyz` that requests to this node will be served. While the node
drains, `/livez` still says yes and `/readyz` no. So a load balancer uses other nodes.
"""

from typing import Final

from api.contract.resource import cluster as cluster_words
from api.contract.resource.node import LIVE, METRICS, READY, SHOW
from api.http.answer import TEXT, Answer
from api.http.exchange import Exchange
from api.http.route import Route
from api.port.port import Readiness


async def cluster(exchange: Exchange) -> Answer:
    """GET /v1/cluster: the cluster as this node sees it."""
    exchange.query(())
    return exchange.document(await exchange.port.cluster())


async def node(exchange: Exchange) -> Answer:
    """GET /v1/node: the state and the figures of this node alone."""
    exchange.query(())
    port = exchange.port
    return exchange.document({"id": port.node_id, "leads": port.leads(), "http": port.budget.figures()})


async def live(exchange: Exchange) -> Answer:
    """GET /livez: 200 while the loop runs."""
    return exchange.answer(200, b"ok\n", TEXT)


async def ready(exchange: Exchange) -> Answer:
    """GET /readyz: 200 or 503. `?verbose` adds one line per check, in the format of Kubernetes' own components."""
    state = await exchange.port.ready()
    if exchange.server.draining:
        state = Readiness(False, {"serving": "the node is shutting down", **state.checks})
    query = exchange.query(("verbose",))
    if "verbose" in query:
        lines = [f"[{'+' if verdict == 'ok' else '-'}] {name}: {verdict}" for name, verdict in state.checks.items()]
    else:
        lines = [f"{name}: {verdict}" for name, verdict in state.checks.items() if verdict != "ok"]
    lines.append("ready" if state.ready else "not ready")
    text = ("\n".join(lines) + "\n").encode()
    return exchange.answer(200 if state.ready else 503, text, TEXT, None if state.ready else {"Retry-After": "1"})


async def metrics(exchange: Exchange) -> Answer:
    """GET /metrics: the metrics in Prometheus text format."""
    return exchange.answer(200, await exchange.port.metrics(), "text/plain; version=0.0.4; charset=utf-8")


ROUTES: Final = (
    Route("GET", "/v1/cluster", cluster, leader=False, health=True, says=cluster_words.SHOW),
    Route("GET", "/v1/node", node, leader=False, health=True, says=SHOW),
    Route("GET", "/livez", live, leader=False, health=True, says=LIVE),
    Route("GET", "/readyz", ready, leader=False, health=True, says=READY),
    Route("GET", "/metrics", metrics, leader=False, health=True, says=METRICS),
)
"""The routes of this file."""
