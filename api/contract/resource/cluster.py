"""Operations of the cluster, as the document shows them: show it, move its leadership, raise its level."""

from typing import Final

from api.contract import schema
from api.contract.operation import Example, Operation, ok
from api.contract.shape import Shape, array, nullable, sent

_NUMBER: Final = nullable({"type": "integer"})
_FIGURE: Final = nullable({"type": "number"})
NODE: Final = schema.text(64)
_LEADER: Final = schema.said(nullable(NODE), "The node that leads, as far as this one knows.")
_TERM: Final = schema.said(schema.COUNT, "Grows with each election.")
_COMMITTED: Final = schema.said(schema.COUNT, "The last log entry that a majority has.")

_DISPATCH: Final = Shape(
    "Dispatch",
    {
        "tick": schema.said({"type": "integer"}, "The second, since 1970, that is being dispatched."),
        "local_index": schema.said(schema.COUNT, "How many messages of that second are dispatched."),
        "applied_index": schema.said(schema.COUNT, "The log entry that this is as of."),
    },
    "How far the leader has dispatched.",
)
_PROGRESS: Final = Shape(
    "SnapshotProgress",
    {
        "applied_index": schema.said(schema.COUNT, "The log entry that the snapshot holds last."),
        "bytes": schema.said(schema.COUNT, "How large it is."),
        "done_bytes": schema.said(schema.COUNT, "How much of it the node has."),
    },
)
_NODE: Final = Shape(
    "Node",
    {
        "id": schema.said(NODE, "The id of the node."),
        "http": schema.said(nullable(schema.WORD), "Where clients reach it."),
        "raft": schema.said(nullable(schema.WORD), "Where the other nodes reach it."),
        "role": schema.said(schema.choice(("leader", "follower", "learner")), "What it does in the cluster."),
        "state": schema.said(schema.choice(("up", "down", "catching-up")), "Whether it answers, and keeps up."),
        "draining": schema.said(schema.FLAG, "It is drained or shuts down."),
        "applied_index": schema.said(_NUMBER, "The last log entry that it applied."),
        "lag": schema.said(_NUMBER, "How many entries it is behind the leader."),
        "clock_offset_ms": schema.said(_FIGURE, "How far its clock is from the leader's."),
        "snapshot": schema.said(nullable(_PROGRESS), "The snapshot that it takes over, or null."),
        "reads": schema.said(nullable(array(schema.COUNT)), "The oldest and the newest level that it reads."),
    },
)
_GROUP: Final = Shape(
    "Group",
    {
        "id": schema.said(schema.COUNT, "The number of the Raft group; there is group 0 alone."),
        "leader": _LEADER,
        "term": _TERM,
        "commit_index": _COMMITTED,
        "dispatch": _DISPATCH,
    },
)
_QUANTILES: Final = ("p50", "p99", "p99_9", "max")
_LATENESS: Final = Shape(
    "Lateness",
    {name: {"type": "integer"} for name in _QUANTILES},
    "How late the newest deliveries of this node were, in ms; empty before the first.",
    optional=_QUANTILES,
)
_AGREEMENT: Final = Shape(
    "Agreement",
    {
        "index": schema.said(schema.COUNT, "The nodes compared what they applied up to this entry."),
        "split": schema.said(nullable(schema.WORD), "Null while they agree, else who differs."),
    },
    "Whether the nodes applied the same.",
)
_CLUSTER: Final = Shape(
    "Cluster",
    {
        "cluster_id": schema.said(nullable(schema.WORD), "Names the cluster for good."),
        "leader": _LEADER,
        "term": _TERM,
        "commit_index": _COMMITTED,
        "level": schema.said(schema.COUNT, "The newest version of entries that every member was seen to read."),
        "nodes": schema.said(array(_NODE), "The members, and those that join."),
        "dispatch": _DISPATCH,
        "agreement": _AGREEMENT,
        "lateness_ms": _LATENESS,
        "groups": schema.said(array(_GROUP), "The Raft groups."),
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
                "from": schema.said(NODE, "The node that led before."),
                "to": schema.said(NODE, "The node that leads now."),
                "term_before": schema.said(schema.COUNT, "The term before."),
                "term_after": schema.said(schema.COUNT, "The term of now."),
                "took_ms": schema.said(schema.COUNT, "From the request to the first answer of the new leader."),
                "gap_ms": schema.said(_NUMBER, "How long no node could deliver."),
                "in_flight_carried": schema.said(_NUMBER, "Leases that ran when the new leader began."),
                "repeated": schema.said(_NUMBER, "Messages that the new leader delivered again too early; 0."),
            },
        ),
        "The node leads. The last three fields are its account; null where it gave none.",
    ),
    request=sent(
        "Transfer", {"to": {**NODE, "description": "The node that shall lead; the best one, if it is left out."}}
    ),
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
    ok(Shape("Level", {"level": schema.said(schema.COUNT, "The level of now.")}), "The level is reached."),
    request=sent(
        "Upgrade",
        {
            "level": {
                **schema.whole(1, 255),
                "description": "The level that is wished; the newest that the node reads, if it is left out.",
            }
        },
    ),
    optional=True,
    errors=("change-in-progress", "no-leader", "outcome-unknown"),
    examples=(Example("newest", "/v1/cluster/upgrade", {"level": 4}, 200, {"level": 4}),),
)
