"""At level 1 apply writes what the first builds wrote: the golden file was written by commit 0971674.

    PYTHONPATH=<a worktree of that commit> python -m pytest tests/replication/apply/test_level_one.py --golden

writes it anew. It is never written by a newer commit: that is the point of it.
"""

import json
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest

from replication.command.dispatch import DispatchState, Realign
from replication.command.member import ChangeMember
from replication.command.overdue import OverdueCutoff
from replication.command.topic import DropTopic, PutTopic
from replication.command.unlink import Unlink
from storage.catalog.checkpoint_record import CheckpointRecord
from storage.directory.verify import digest
from storage.file.disk import Disk
from tests.replication.applied_log import (
    GENESIS,
    HOUR_MS,
    T0,
    Log,
    ack,
    cancel,
    checkpoint,
    extend,
    fail,
    files,
    key,
    lease,
    placed,
    redrive,
    release,
    reschedule,
    schedule,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "level_1.json"


def run(directory: Path) -> dict[str, Any]:
    """Every kind of command, alone and together; what it left."""
    log = Log(directory)
    hashes = []

    def apply(*commands: Any, **more: Any) -> Any:
        applied = log.apply(*commands, **more)
        hashes.append(log.machine.rolling_hash.hex())
        return applied

    apply(GENESIS)
    apply(ChangeMember("add", "n4", log.store.catalog.members.index, "h:7500", "h:7400"))
    apply(PutTopic("default", "orders", {"retry": {"max": 3}}, replace=False, revision=0))
    near = placed(apply(schedule(*range(T0 + 1_000, T0 + 9_000, 1_000), keys=(key(0, b"f"),))))
    far = placed(apply(schedule(T0 + 40 * HOUR_MS, T0 + 41 * HOUR_MS, T0 + 40 * HOUR_MS, topic="bills")))
    apply(DispatchState(T0 // 1000 + 4, 0, log.index), lease(*near[:4]), now_ms=T0 + 4_000)
    apply(ack((near[0], 1, 1)), fail((near[1], 1, 1), texts=(b"no",)), extend((near[2], 1, 1, T0 + 60_000)))
    checkpoint(log)
    apply(release((near[3], 1, 1)), cancel(near[4], far[0]), reschedule((near[5], T0 + 50 * HOUR_MS)))
    apply(lease(near[6]), fail((near[6], 1, 1), dead=True), redrive(near[6]), now_ms=T0 + 7_000)
    apply(lease(near[7]), entry_term=2)
    apply(Realign(T0 // 1000 + 2, T0 + 2_000, log.index), schedule(T0 + 1, topic="orders"))
    apply(schedule(T0 + 70 * HOUR_MS, topic="gone"), DispatchState(T0 // 1000 + 3, 0, log.index))
    apply(cancel(placed(apply(schedule(T0 + 80 * HOUR_MS, topic="gone")))[0]))
    apply(DropTopic("default", "gone", log.index, T0, 0), OverdueCutoff(T0, done=False))
    apply(Unlink(np.array([T0 // HOUR_MS])), now_ms=T0 + 90 * HOUR_MS)
    checkpoint(log)
    record = log.store.checkpoint
    told = log.machine.sums.at(log.index)
    log.store.close()
    assert record is not None
    assert told is not None
    content = files(directory)
    return {
        "entries": [google_crc32c.value(entry) for _, _, entry in log.entries],
        "hashes": hashes,
        "told": told.hex(),
        "record": record.encode().hex(),
        "files": {name: f"{len(data)} {google_crc32c.value(data):08x}" for name, data in content.items()},
        "digest": digest(directory, disk=Disk())[0],
    }


def test_a_cluster_of_level_1_writes_what_the_first_builds_wrote(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Entries, the hash after each, what nodes tell of it, files, checkpoint record and digest: all as they were."""
    found = run(tmp_path)
    if pytestconfig.getoption("--golden") and "level" not in CheckpointRecord.__dataclass_fields__:
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(GOLDEN.read_text())


def test_the_record_that_the_first_builds_wrote_is_of_level_1() -> None:
    """It says nothing of a level."""
    record = CheckpointRecord.decode(bytes.fromhex(json.loads(GOLDEN.read_text())["record"]))
    assert (record.level, record.hash_version) == (1, 1)
