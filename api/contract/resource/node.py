"""Operations of the node that answers, as the document shows them: its figures and its health."""

from typing import Final

from api.contract import schema
from api.contract.operation import TEXT, Answered, Example, Operation, Parameter, ok
from api.contract.resource.cluster import NODE
from api.contract.shape import Shape

_HELD: Final = Shape(
    "HttpFigures",
    dict.fromkeys(("connections", "connections_max", "held_bytes", "held_bytes_max", "refused"), schema.COUNT),
)
SHOW: Final = Operation(
    "getNode",
    "This node alone",
    ok(Shape("NodeFigures", {"id": NODE, "leads": schema.FLAG, "http": _HELD})),
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
    {200: Answered(schema.WORD, "It does.", TEXT)},
    examples=(Example("live", "/livez", "ok\n"),),
)
READY: Final = Operation(
    "isReady",
    "Whether requests sent here will be served",
    {200: Answered(schema.WORD, "They will.", TEXT), 503: Answered(schema.WORD, "They will not; why.", TEXT)},
    parameters=(Parameter("verbose", {"type": "string"}, "A line for each check. It takes no value."),),
    examples=(Example("ready", "/readyz", "ready\n"),),
)
METRICS: Final = Operation(
    "getMetrics",
    "Prometheus text format",
    {200: Answered(schema.WORD, "All figures.", TEXT)},
    examples=(Example("all", "/metrics"),),
)
