"""Operations of the cluster, as the document shows them: show it, move its leadership, raise its level."""

from typing import Final

from api.contract import schema
from api.contract.operation import Example, Operation, ok
from api.contract.shape import Shape, array, nullable, sent

_NUMBER: Final = nullable({"type": "integer"})
_FIGURE: Final = nullable({"type": "number"})
NODE: Final = schema.text(64)

_DISPATCH: Final = Shape(
    "Dispatch", {"tick": {"type": "integer"}, "local_index": schema.COUNT, "applied_index": schema.COUNT}
)
_PROGRESS: Final = Shape(
    "SnapshotProgress", {"applied_index": schema.COUNT, "bytes": schema.COUNT, "done_bytes": schema.COUNT}
)
_NODE: Final = Shape(
    "Node",
    {
        "id": NODE,
        "http": nullable(schema.WORD),
        "raft": nullable(schema.WORD),
        "role": schema.choice(("leader", "follower", "learner")),
        "state": schema.choice(("up", "down", "catching-up")),
        "draining": schema.FLAG,
        "applied_index": _NUMBER,
        "lag": _NUMBER,
        "clock_offset_ms": _FIGURE,
        "snapshot": nullable(_PROGRESS),
        "reads": nullable(array(schema.COUNT)),
    },
)
_GROUP: Final = Shape(
    "Group",
    {
        "id": schema.COUNT,
        "leader": nullable(NODE),
        "term": schema.COUNT,
        "commit_index": schema.COUNT,
        "dispatch": _DISPATCH,
    },
)
_LATENESS: Final = Shape("Lateness", dict.fromkeys(("p50", "p99", "p99_9", "max"), _FIGURE))
_AGREEMENT: Final = Shape("Agreement", {"index": schema.COUNT, "split": {}})
_CLUSTER: Final = Shape(
    "Cluster",
    {
        "cluster_id": nullable(schema.WORD),
        "leader": nullable(NODE),
        "term": schema.COUNT,
        "commit_index": schema.COUNT,
        "level": schema.COUNT,
        "nodes": array(_NODE),
        "dispatch": _DISPATCH,
        "agreement": _AGREEMENT,
        "lateness_ms": _LATENESS,
        "groups": array(_GROUP),
    },
)
SHOW: Final = Operation(
    "getCluster", "The cluster, as this node sees it", ok(_CLUSTER), examples=(Example("whole", "/v1/cluster"),)
)
TRANSFER: Final = Operation(
    "transferLeadership",
    "Move leadership",
    ok(
        Shape(
            "Transferred",
            {
                "from": NODE,
                "to": NODE,
                "term_before": schema.COUNT,
                "term_after": schema.COUNT,
                "took_ms": schema.COUNT,
                "gap_ms": _NUMBER,
                "in_flight_carried": _NUMBER,
                "repeated": _NUMBER,
            },
        ),
        "It leads. The last three are its own account; null where it gave none.",
    ),
    request=sent("Transfer", {"to": {**NODE, "description": "The best one, if it is left out."}}),
    optional=True,
    errors=("unknown-node", "not-caught-up", "change-in-progress"),
    examples=(
        Example(
            "to",
            "/v1/cluster/transfer",
            {
                "from": "n1",
                "to": "n2",
                "term_before": 7,
                "term_after": 8,
                "took_ms": 12,
                "gap_ms": 9,
                "in_flight_carried": 4,
                "repeated": 0,
            },
            200,
            {"to": "n2"},
            alone=False,
        ),
    ),
)
UPGRADE: Final = Operation(
    "upgradeCluster",
    "Raise the level",
    ok(Shape("Level", {"level": schema.COUNT}), "The level of now."),
    request=sent("Upgrade", {"level": {**schema.whole(1, 255), "description": "The newest, if it is left out."}}),
    optional=True,
    errors=("change-in-progress", "no-leader", "outcome-unknown"),
    examples=(Example("newest", "/v1/cluster/upgrade", {"level": 3}, 200, {"level": 3}),),
)
