"""Operations that add and remove nodes, as the document shows them."""

from typing import Final

from api.contract import schema
from api.contract.operation import Answered, Example, Operation, ok
from api.contract.resource.cluster import NODE
from api.contract.shape import Shape, sent

_RAFT: Final = schema.said(schema.text(200), "`host:port` where the other nodes reach it.")
_HTTP: Final = schema.said(schema.text(200), "`host:port` where clients reach it.")
_MEMBER: Final = Shape(
    "Member",
    {
        "id": schema.said(NODE, "The id of the node."),
        "number": schema.said(schema.COUNT, "Names the node in records; it is never given again."),
        "raft": schema.said(schema.WORD, "Where the other nodes reach it."),
        "http": schema.said(schema.WORD, "Where clients reach it."),
        "role": schema.said(schema.choice(("voter", "learner", "removed")), "What it is in the cluster."),
        "index": schema.said(schema.COUNT, "The log entry of the change."),
    },
)
ADD: Final = Operation(
    "addMember",
    "Add a node",
    {201: Answered(_MEMBER, "The node is a learner, and votes once it has caught up.")},
    request=sent(
        "NewMember",
        {"id": schema.said(NODE, "An id that no member ever had."), "raft": _RAFT, "http": _HTTP},
        ("id", "raft", "http"),
    ),
    errors=("change-in-progress",),
    examples=(
        Example(
            "fourth",
            "/v1/cluster/members",
            {
                "id": "n4",
                "number": 4,
                "raft": "10.0.0.4:7500",
                "http": "10.0.0.4:7400",
                "role": "learner",
                "index": 4711,
            },
            201,
            {"id": "n4", "raft": "10.0.0.4:7500", "http": "10.0.0.4:7400"},
            alone=False,
        ),
    ),
)
REMOVE: Final = Operation(
    "removeMember",
    "Remove a node",
    ok(_MEMBER, "The node ends by itself."),
    errors=("unknown-node", "quorum-loss", "not-caught-up", "change-in-progress"),
    examples=(
        Example(
            "third",
            "/v1/cluster/members/n3",
            {
                "id": "n3",
                "number": 3,
                "raft": "10.0.0.3:7500",
                "http": "10.0.0.3:7400",
                "role": "removed",
                "index": 4712,
            },
            alone=False,
        ),
    ),
)
