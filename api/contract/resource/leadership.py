"""Operations that take a node out of service and back, as the document shows them."""

from typing import Final

from api.contract import schema
from api.contract.operation import Example, Operation, ok
from api.contract.resource.cluster import NODE
from api.contract.shape import Shape, nullable, sent

_DRAINED: Final = Shape(
    "Drained",
    {
        "node": schema.said(NODE, "The node that answers."),
        "draining": schema.said(schema.FLAG, "Whether it is drained."),
        "led": schema.said(schema.FLAG, "Whether it led when it was asked."),
        "leader": schema.said(nullable(NODE), "The node that leads now."),
        "pushes": schema.said(schema.COUNT, "Webhooks that were still on the wire after 25 s."),
    },
)
_MEANT: Final = sent(
    "DrainWish",
    {"node": {**NODE, "description": "The id of the node that is meant; another node refuses the request."}},
)
DRAIN: Final = Operation(
    "drainNode",
    "Take the node that answers out of service",
    ok(_DRAINED, "The node does not lead, refuses requests, and has no webhook on the wire."),
    request=_MEANT,
    optional=True,
    errors=("unknown-node", "not-caught-up", "change-in-progress"),
    examples=(
        Example(
            "drained",
            "/v1/node/drain",
            {"node": "n1", "draining": True, "led": True, "leader": "n2", "pushes": 0},
            200,
            {"node": "n1"},
            alone=False,
        ),
    ),
)
UNDRAIN: Final = Operation(
    "undrainNode",
    "Let the node that answers serve again",
    ok(_DRAINED, "The node serves, and may lead."),
    request=_MEANT,
    optional=True,
    errors=("unknown-node",),
    examples=(
        Example(
            "serves",
            "/v1/node/drain",
            {"node": "n1", "draining": False, "led": True, "leader": "n1", "pushes": 0},
        ),
    ),
)
