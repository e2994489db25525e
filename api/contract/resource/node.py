"""Operations of the node that answers, as the document shows them: its figures and its health."""

from typing import Final

from api.contract import schema
from api.contract.operation import TEXT, Answered, Example, Operation, Parameter, ok
from api.contract.resource.cluster import NODE
from api.contract.schema import Schema
from api.contract.shape import Shape

_HELD: Final = Shape(
    "HttpFigures",
    {
        "connections": schema.said(schema.COUNT, "Open connections of clients."),
        "connections_max": schema.said(schema.COUNT, "As many as there may be."),
        "held_bytes": schema.said(schema.COUNT, "Memory that requests and answers of clients hold."),
        "held_bytes_max": schema.said(schema.COUNT, "As much as they may hold."),
        "refused": schema.said(schema.COUNT, "Requests refused with `busy` since the start."),
    },
    "What its clients hold of it.",
)
_FIGURES: Final[dict[str, Schema | Shape]] = {
    "id": schema.said(NODE, "The id of the node."),
    "leads": schema.said(schema.FLAG, "Whether it leads."),
    "http": _HELD,
}
SHOW: Final = Operation(
    "getNode",
    "This node alone",
    ok(Shape("NodeFigures", _FIGURES)),
    examples=(
        Example(
            "leads",
            "/v1/node",
            {
                "id": "n1",
                "leads": True,
                "http": {
                    "connections": 1,
                    "connections_max": 10000,
                    "held_bytes": 0,
                    "held_bytes_max": 100663296,
                    "refused": 0,
                },
            },
        ),
    ),
)
LIVE: Final = Operation(
    "isLive",
    "Whether the process runs its loop",
    {200: Answered(schema.WORD, "`ok`: it does.", TEXT)},
    examples=(Example("live", "/livez", "ok\n"),),
)
READY: Final = Operation(
    "isReady",
    "Whether requests sent here will be served",
    {
        200: Answered(schema.WORD, "`ready`: they will.", TEXT),
        503: Answered(schema.WORD, "They will not; the text says why.", TEXT),
    },
    parameters=(Parameter("verbose", {"type": "string"}, "A line for each check. It takes no value."),),
    examples=(Example("ready", "/readyz", "ready\n"),),
)
METRICS: Final = Operation(
    "getMetrics",
    "Prometheus text format",
    {200: Answered(schema.WORD, "All metrics.", TEXT)},
    examples=(Example("all", "/metrics"),),
)
