"""Requests about the cluster and its nodes, of which none changes who leads and who is a member."""

from tests.node.every_request import IDEMPOTENT, NDJSON, Request


def _refused(path: str, *bad: object) -> tuple[Request, ...]:
    """What all routes with an optional document refuse."""
    return (
        *(Request(f"POST {path}", "422 invalid-field", each) for each in bad),
        Request(f"POST {path}", "422 unknown-field", {"twoo": 1}),
        Request(f"POST {path}?a=b", "422 unknown-field", {}),
        Request(f"POST {path}", "422 invalid-field", {}, IDEMPOTENT),
        Request(f"POST {path}", "400 malformed-json", "{"),
        Request(f"POST {path}", "415 unsupported-media-type", {"a": 1}, NDJSON),
        Request(f"PUT {path}", "405 method-not-allowed", {}),
    )


TAKEN = "taken"
"""A file that stands where a directory of backups would be."""

_FOURTH = {"id": "n4", "raft": "127.0.0.1:1", "http": "127.0.0.1:2"}
CLUSTER = (
    Request("POST /v1/cluster/transfer", "200", {"to": "$leader"}),
    Request("POST /v1/cluster/transfer", "404 unknown-node", {"to": "n9"}),
    *_refused("/v1/cluster/transfer", {"to": 5}, {"to": ""}, []),
    Request("POST /v1/cluster/upgrade", "200", {}),
    Request("POST /v1/cluster/upgrade", "200", {"level": 1}),
    Request("POST /v1/cluster/upgrade", "200"),
    Request("POST /v1/cluster/upgrade", "422 not-supported-yet", {"level": 200}),
    *_refused("/v1/cluster/upgrade", {"level": 0}, {"level": "1"}),
    Request("POST /v1/cluster/members", "422 invalid-field", _FOURTH),
    Request("POST /v1/cluster/members", "422 invalid-field", _FOURTH | {"id": "$leader"}),
    Request("POST /v1/cluster/members", "201", {"id": "$third", "raft": "$raft", "http": "$http"}),
    Request("POST /v1/cluster/members", "422 invalid-field", _FOURTH | {"http": "127.0.0.1:1"}),
    *_refused("/v1/cluster/members", _FOURTH | {"id": "a b"}, _FOURTH | {"raft": "nowhere"}, {"id": "n4"}),
    Request("GET /v1/cluster/members", "405 method-not-allowed"),
    Request("DELETE /v1/cluster/members/n9", "404 unknown-node"),
    Request("DELETE /v1/cluster/members/n9?a=b", "422 unknown-field"),
    Request("DELETE /v1/cluster/members/n9", "422 invalid-field", headers=IDEMPOTENT),
    Request("POST /v1/cluster/snapshot", "201", {"directory": "nightly"}),
    Request("POST /v1/cluster/snapshot", "503 backup-failed", {"directory": TAKEN}),
    *_refused("/v1/cluster/snapshot", {"directory": ""}, {"directory": 1}),
    Request("POST /v1/cluster/waits", "200", {"node": "n9"}),
    Request("POST /v1/ledger/records", "415 unsupported-media-type", {"homes": ""}),
    Request("POST /v1/node/drain", "404 unknown-node", {"node": "n9"}),
    *_refused("/v1/node/drain", {"node": 5}),
    Request("DELETE /v1/node/drain", "404 unknown-node", {"node": "n9"}),
    Request("DELETE /v1/node/drain", "422 invalid-field", {"node": 5}),
    Request("DELETE /v1/node/drain", "200"),
    Request("DELETE /v1/node/drain?a=b", "422 unknown-field"),
    Request("DELETE /v1/node/drain", "422 invalid-field", headers=IDEMPOTENT),
    Request("GET /v1/cluster", "200"),
    Request("GET /v1/cluster?a=b", "422 unknown-field"),
    Request("GET /v1/node", "200"),
    Request("GET /v1/node?a=b", "422 unknown-field"),
    Request("GET /livez", "200"),
    Request("GET /readyz", "200"),
    Request("GET /readyz?verbose", "200"),
    Request("GET /readyz?verbse", "422 unknown-field"),
    Request("GET /readyz?verbose&verbose", "422 invalid-field"),
    Request("GET /metrics", "200"),
    Request("POST /metrics", "405 method-not-allowed", {}),
    Request("GET /openapi.json", "404 unknown-route"),
    Request("GET /nowhere", "404 unknown-route"),
)

DRAINED = (
    Request("POST /v1/messages", "503 draining", {"topic": "~.orders", "body": 1}),
    Request("GET /v1/topics/~.orders", "503 draining"),
    Request("POST /v1/cluster/transfer", "503 draining", {}),
    Request("POST /v1/topics/~.orders/pull", "503 draining", {"wait": "1s"}),
    Request("GET /readyz", "503"),
    Request("GET /v1/cluster", "200"),
    Request("POST /v1/node/drain", "200", {}),
)
"""Of two nodes that an operator drained; both are told so once more."""

ONE_DOWN = (
    Request("POST /v1/cluster/transfer", "409 not-caught-up", {"to": "$third"}),
    Request("DELETE /v1/cluster/members/$other", "409 quorum-loss"),
)
"""Where the third node is down."""

REMOVED = (
    Request("DELETE /v1/cluster/members/$third", "200"),
    Request("POST /v1/cluster/members", "422 invalid-field", {"id": "$third", "raft": "$raft", "http": "$http"}),
)
"""Where it is no member any more."""
