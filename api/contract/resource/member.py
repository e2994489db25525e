"""Operations that add and remove nodes, as the document shows them."""

from typing import Final

from api.contract import schema
from api.contract.operation import Answered, Example, Operation, ok
from api.contract.resource.cluster import NODE
from api.contract.shape import Shape, sent

_ADDRESS: Final = {**schema.text(200), "description": "host:port"}
_MEMBER: Final = Shape(
    "Member",
    {
        "id": NODE,
        "number": schema.COUNT,
        "raft": schema.WORD,
        "http": schema.WORD,
        "role": schema.choice(("voter", "learner", "removed")),
        "index": schema.COUNT,
    },
)
ADD: Final = Operation(
    "addMember",
    "Add a node",
    {201: Answered(_MEMBER, "It gets its vote by itself when it has caught up.")},
    request=sent("NewMember", {"id": NODE, "raft": _ADDRESS, "http": _ADDRESS}, ("id", "raft", "http")),
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
    ok(_MEMBER, "It ends by itself. Asked again it answers the same."),
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
