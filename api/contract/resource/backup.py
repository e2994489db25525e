"""The operation that writes a backup, as the document shows it."""

from typing import Final

from api.contract import schema
from api.contract.operation import Answered, Example, Operation
from api.contract.resource.cluster import NODE
from api.contract.shape import Shape, sent

_WRITTEN: Final = Shape(
    "Backup",
    {
        "node": NODE,
        "directory": schema.WORD,
        "cluster_id": schema.WORD,
        "applied_index": schema.COUNT,
        "applied_term": schema.COUNT,
        "bytes": schema.COUNT,
        "files": schema.COUNT,
        "took_ms": schema.COUNT,
    },
)
SNAPSHOT: Final = Operation(
    "writeBackup",
    "Write a backup",
    {
        201: Answered(
            _WRITTEN,
            "It is durable, on the disk of the node that was asked.",
            headers={"Location": "The directory, and its node.", "ETag": "The last entry that it holds."},
        )
    },
    request=sent("BackupWish", {"directory": {**schema.text(1024), "description": "Below `[backup] directory`."}}),
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
