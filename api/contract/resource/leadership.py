"""Operations that take a node out of service and back, as the document shows them."""

from typing import Final

from api.contract import schema
from api.contract.operation import Example, Operation, ok
from api.contract.resource.cluster import NODE
from api.contract.shape import Shape, nullable, sent

_DRAINED: Final = Shape(
    "Drained",
    {
        "node": NODE,
        "draining": schema.FLAG,
        "led": schema.FLAG,
        "leader": nullable(NODE),
        "pushes": schema.COUNT,
    },
)
_MEANT: Final = sent("DrainWish", {"node": {**NODE, "description": "Has to be the node that is asked."}})
DRAIN: Final = Operation(
    "drainNode",
    "Take the node that answers out of service",
    ok(_DRAINED, "It leads nothing, takes no requests, and nothing of it is on the wire."),
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
    ok(_DRAINED, "It may lead."),
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
