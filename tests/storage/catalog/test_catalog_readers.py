"""Readers in other processes, beside a catalog that goes on: the dead hold nothing back, the living keep their view."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from storage.catalog.catalog import Catalog
from storage.catalog.hour_lengths import HourLengths
from storage.file.disk import Disk
from tests.storage.catalog.test_catalog import record

HOURS = 720
CHECKPOINTS = 40
ONE_RECORD = HOURS * 64
"""Bytes of a checkpoint's record: what each checkpoint frees and writes anew."""

READER = """
import sys
from pathlib import Path
from reconcile.files.node import _open_catalog

catalog = _open_catalog(Path(sys.argv[1]))
print(catalog.record.applied_index, flush=True)
sys.stdin.readline()
print(len(catalog.faults()), catalog.record.applied_index, flush=True)
"""


@contextmanager
def reader(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has begun to read the catalog, as the reconciliation does, and reads on when it is told to."""
    command = [sys.executable, "-c", READER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline()
            yield child
        finally:
            child.kill()


def go_on(catalog: Catalog) -> None:
    """Many checkpoints of a month of hours."""
    for _ in range(CHECKPOINTS):
        last = catalog.record.applied_index if catalog.record else 0
        hours = {number: HourLengths(number, 64, 64, 0, 0) for number in range(HOURS)}
        frozen = catalog.begin(replace(record(last + 1), hours=hours))
        frozen.commit()
        catalog.finish(frozen)


def test_a_killed_reader_does_not_make_the_catalog_grow(tmp_path: Path) -> None:
    """A reader killed within its transaction: its slot is given back, and pages are used again."""
    catalog = Catalog.open(tmp_path, Disk())
    go_on(catalog)
    before = (tmp_path / "data.mdb").stat().st_size
    with reader(tmp_path) as child:
        child.kill()
        child.wait()
        go_on(catalog)
    assert (tmp_path / "data.mdb").stat().st_size - before < 10 * ONE_RECORD
    catalog.close()


def test_a_living_reader_keeps_its_view(tmp_path: Path) -> None:
    """One that reads slowly beside the node still finds the checkpoint that it began with, whole."""
    catalog = Catalog.open(tmp_path, Disk())
    go_on(catalog)
    with reader(tmp_path) as child:
        go_on(catalog)
        said, _ = child.communicate("go on\n")
        assert said == f"0 {CHECKPOINTS}\n"
    catalog.close()
