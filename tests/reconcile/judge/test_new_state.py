"""A new state is a row: an export has it, and a reconciliation takes messages in it for open."""

from pathlib import Path

import numpy as np

from ledger.columns import Flag, MessageClass
from storage.export.export import Export
from storage.export.source import read_source
from storage.export.verify import verify_export
from storage.file.disk import Disk
from storage.format.position import HOUR_MS
from storage.format.states import CANCELLED
from storage.record.delivery_record import TERM_BEGUN
from tests.reconcile.directories import NOW, log_deliveries, make_node, term_row
from tests.reconcile.judging import judge_directories
from tests.storage.new_state import HALF, added
from tests.storage.workload import append, settle


def test_an_export_and_the_directory_tell_the_same(tmp_path: Path) -> None:
    """Two are half, one of two others was cancelled, and all are due for an hour."""
    with added(HALF):
        half, ended = settle(HALF.number, (0, 0), (0, 1)), settle(CANCELLED, (0, 2))
        node = make_node(tmp_path / "n1", [append(*range(4)), half, ended])
        log_deliveries(node, term_row(TERM_BEGUN, 1, NOW - 1))
        Export(read_source(node, Disk(), NOW), tmp_path / "export", Disk()).run()
        assert verify_export(tmp_path / "export").faults == []
        for path in (node, tmp_path / "export"):
            (ledger,) = judge_directories([path], from_ms=0, until_ms=NOW + HOUR_MS)
            pending = MessageClass.PENDING
            assert ledger.messages["class"].tolist() == [pending, pending, MessageClass.CANCELLED, pending]
            overdue = ledger.messages["flags"] & np.uint32(Flag.OVERDUE) > 0
            assert overdue.tolist() == [False, False, False, True]
