"""The operation that writes a backup, as the document shows it."""

from typing import Final

from api.contract import schema
from api.contract.operation import Answered, Example, Operation
from api.contract.resource.cluster import NODE
from api.contract.shape import Shape, sent

_WRITTEN: Final = Shape(
    "Backup",
    {
        "node": schema.said(NODE, "The node that wrote it, on its own disk."),
        "directory": schema.said(schema.WORD, "Where it stands there."),
        "cluster_id": schema.said(schema.WORD, "The cluster that it is of."),
        "applied_index": schema.said(schema.COUNT, "The last log entry that it holds."),
        "applied_term": schema.said(schema.COUNT, "The term of that entry."),
        "bytes": schema.said(schema.COUNT, "How large it is."),
        "files": schema.said(schema.COUNT, "How many files it has."),
        "took_ms": schema.said(schema.COUNT, "How long it took."),
    },
)
SNAPSHOT: Final = Operation(
    "writeBackup",
    "Write a backup",
    {
        201: Answered(
            _WRITTEN,
            "The backup is durable.",
            headers={"Location": "The node and the directory.", "ETag": "The last entry that it holds."},
        )
    },
    request=sent(
        "BackupWish",
        {
            "directory": {
                **schema.text(1024),
                "description": "A directory below `[backup] directory`; that itself, if it is left out.",
            }
        },
    ),
    optional=True,
    errors=("change-in-progress", "backup-failed", "no-leader"),
    examples=(
        Example(
            "nightly",
            "/v1/cluster/snapshot",
            {
                "node": "n1",
                "directory": "/var/lib/hourwheel.backups/nightly/9c60c78a-00000000000000000021-n1",
                "cluster_id": "9c60c78a03094dd88c203e23561bfb4b",
                "applied_index": 21,
                "applied_term": 1,
                "bytes": 53856,
                "files": 10,
                "took_ms": 24,
            },
            201,
            {"directory": "nightly"},
        ),
    ),
)
