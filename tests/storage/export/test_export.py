"""An export holds the rows of a directory, grows with it, and is whole wherever a run is stopped."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import Buffer

from storage.directory.data_directory import lock_line
from storage.export.export import Export, Exported, ExportRefused
from storage.export.manifest import MANIFEST, Partition, day_of, encode, is_export, read_export
from storage.export.source import read_source
from storage.export.verify import verify_export
from storage.file.delivery_file import DeliveryWriter
from storage.file.disk import Disk, DiskFailed
from storage.format.position import HOUR_MS
from storage.format.rows import HEADER_SIZE, MAGIC_HEADERS, UNIT, Corrupt, FileHeader
from storage.record.delivery_record import DELIVERY, PULL, START
from storage.record.record import HEADER
from storage.store import Store
from tests.examples import examples
from tests.storage.faulty_disk import Stopped, StoppingDisk
from tests.storage.installing import FEW, make
from tests.storage.quick_directory import quick_directory
from tests.storage.workload import (
    CHECKPOINTS,
    CLUSTER_ID,
    ENTRIES,
    HOUR,
    Entry,
    H,
    append,
    checkpoint,
    content,
    replay,
    settle,
    unlink,
)

NOW = HOUR * HOUR_MS


def hand_over(directory: Path, *at_ms: int) -> None:
    """A start of the node that hands over at these times, ms after the workload's first hour."""
    writer = DeliveryWriter(directory / "deliveries", Disk(), group=0, cluster_id=CLUSTER_ID)
    for at in at_ms:
        rows = np.zeros(2, DELIVERY)
        rows["home"] = (HOUR << 40) + at
        rows["kind"], rows["mode"], rows["at_ms"] = START, PULL, NOW + at
        writer.append(rows, NOW + at)
    writer.close()


def export(directory: Path, to: Path, disk: Disk | None = None) -> Exported:
    """One run."""
    return Export(read_source(directory, Disk(), NOW), to, disk or Disk()).run()


def go_on(directory: Path, entries: list[Entry], which: list[Entry]) -> None:
    """The node applies what `entries` has behind its checkpoint, and makes another one."""
    store = Store.open(directory, disk=Disk())
    replay(store, entries + which)
    checkpoint(store, store.applied_index)
    store.close()


def exported(to: Path) -> dict[str, bytes]:
    """The files that the manifests list, to the lengths they say, by day, node and name."""
    found = {}
    for folder, partition in read_export(to, Disk())[1]:
        for hour in partition.hours:
            for name, file in (("headers", hour.headers), ("index", hour.index), ("settle", hour.settle)):
                if file.bytes:
                    path = folder / hour.folder / name
                    found[str(path.relative_to(to))] = path.read_bytes()[: file.bytes]
        for log in partition.deliveries:
            path = folder / log.folder
            found[str(path.relative_to(to))] = path.read_bytes()[: log.bytes]
    return found


def assert_holds(directory: Path, to: Path, entries: list[Entry] = ENTRIES) -> None:
    """The export verifies, and has all of the directory's last checkpoint and delivery log."""
    report = verify_export(to)
    assert report.sound, report.faults
    mine, found = content(directory), exported(to)
    for path, data in mine.items():
        hour, name = path.split("/")
        if name != "log":
            first = int(np.frombuffer(mine[f"{hour}/index"], UNIT, 1, HEADER_SIZE)["global_index"][0])
            folder = f"dt={day_of(int(hour))}/node=n1/hours/{hour}" + (f".{first}" if first else "")
            assert found[f"{folder}/{name}"] == data, path
            assert f"{folder}/headers" in found
    for path_of_log in (directory / "deliveries").glob("*.log"):
        assert path_of_log.read_bytes() in found.values(), path_of_log


def test_an_export_is_the_checkpoint_without_bodies(quick_path: Path) -> None:
    """Index and settle files are the node's byte for byte; headers are what begins each unit's record, in the order of
    the index; the words about the node tell its cluster, index, members and topics, and no secret."""
    source, to = make(quick_path / "n1", 30, which=ENTRIES), quick_path / "export"
    hand_over(source, 5, H + 5)
    hand_over(source, H + 6)
    done = export(source, to)
    assert_holds(source, to)
    nodes, partitions = read_export(to, Disk())
    word = nodes["n1"]
    assert (word.cluster_id, word.applied_index, word.deliveries_until_ms) == (CLUSTER_ID.hex(), 30, NOW)
    assert [(topic.number, topic.name) for topic in word.topics] == [(1, "orders"), (2, "bills")]
    hours = [hour for _, partition in partitions for hour in partition.hours]
    assert done.units == sum(hour.units for hour in hours) > 20
    assert done.covered == {(hour.hour, hour.first): (hour.units, hour.settles) for hour in hours}
    assert done.deliveries == 7  # one of them tells that its file goes on
    assert sorted(file.sequence for file in done.complete) == [1, 2]
    for folder, partition in partitions:
        for hour in partition.hours:
            data = (folder / hour.folder / "headers").read_bytes()
            header = FileHeader.decode(data[:HEADER_SIZE], "headers")
            assert header == FileHeader(MAGIC_HEADERS, 0, hour.hour, CLUSTER_ID)
            log = next(path for path in source.glob(f"hours/{hour.hour}*/log")).read_bytes()
            units = np.frombuffer((folder / hour.folder / "index").read_bytes(), UNIT, offset=HEADER_SIZE)
            rows = np.frombuffer(data, HEADER, offset=HEADER_SIZE)
            for unit, row in zip(units, rows, strict=True):
                assert log[int(unit["offset"]) :].startswith(row.tobytes())


def test_a_second_run_writes_what_is_new(quick_path: Path) -> None:
    """A run with nothing new writes nothing; one with more units, settles and hand-overs writes those; an hour that was
    unlinked stays, beside what was begun again under its number."""
    source, to = make(quick_path / "n1", 7), quick_path / "export"
    hand_over(source, 5)
    export(source, to)
    before = {path: path.stat().st_mtime_ns for path in to.rglob("*") if path.is_file()}
    again = export(source, to)
    assert (again.hours, again.units, again.settles, again.deliveries, again.bytes) == (0, 0, 0, 0, 0)
    unchanged = {path: path.stat().st_mtime_ns for path in to.rglob("*") if path.is_file()}
    word = to / "nodes" / "n1.json"
    assert {**unchanged, word: 0} == {**before, word: 0}
    more = [append(6_000, 9 * H + 5), settle(2, (9, 0), (1, 0)), unlink(1), append(H + 9)]
    hand_over(source, 10)
    go_on(source, FEW, more)
    done = export(source, to)
    assert (done.units, done.settles, done.deliveries) == (3, 1, 2)
    assert_holds(source, to)
    hours = [(hour.hour - HOUR, hour.first) for _, partition in read_export(to, Disk())[1] for hour in partition.hours]
    assert hours == [(0, 0), (1, 0), (1, 1), (9, 0)]


@pytest.mark.parametrize("loss", ["torn", "unsynced"])
def test_a_run_stopped_at_every_operation(quick_path: Path, loss: str) -> None:
    """A stop in any write, sync or rename leaves what the manifests say sound, be it the first run or a later one; the
    next run has it all."""
    source = make(quick_path / "n1", 5)
    hand_over(source, 5)
    first = quick_path / "first"
    export(source, first)
    go_on(source, FEW, [settle(2, (0, 0), (9, 0)), append(7_000)])
    hand_over(source, 9)
    for begun in (False, True):
        disk = StoppingDisk()
        counted = quick_path / f"counted-{begun}"
        if begun:
            shutil.copytree(first, counted)
        export(source, counted, disk)
        assert len(disk.operations) > 20
        for stop_at in range(1, len(disk.operations) + 1):
            to = quick_path / "to"
            if begun:
                shutil.copytree(first, to)
            stopping = StoppingDisk(stop_at, torn_bytes=stop_at if loss == "torn" else None)
            stopping.trust(quick_path)
            with pytest.raises(Stopped):
                export(source, to, stopping)
            if loss == "unsynced":
                stopping.lose_unsynced(to)
            assert verify_export(to).sound, (stop_at, verify_export(to).faults)
            if begun:
                old = exported(first)
                assert all(exported(to)[path].startswith(data) for path, data in old.items()), stop_at
            export(source, to)
            assert_holds(source, to)
            shutil.rmtree(to)


@examples(15)
@given(upto=st.lists(st.integers(2, len(ENTRIES)), min_size=1, max_size=4))
def test_any_order_of_runs_gives_one_export(upto: list[int]) -> None:
    """Runs at any checkpoints, older ones after newer ones too, give what one run at the newest gives, and the hours
    that were unlinked before it."""
    with quick_directory() as path:
        for number, index in enumerate(upto):
            source = make(path / f"{number}", index, CHECKPOINTS, which=ENTRIES)
            export(source, path / "export")
        newest = path / str(upto.index(max(upto)))
        assert_holds(newest, path / "export")
        assert read_export(path / "export", Disk())[0]["n1"].applied_index == max(upto)


def test_a_directory_that_is_behind_changes_nothing(quick_path: Path) -> None:
    """An older copy of the directory adds nothing, takes nothing away, and the node's word stays the newer one."""
    to = quick_path / "export"
    export(make(quick_path / "new", 7), to)
    before = exported(to), (to / "nodes" / "n1.json").read_bytes()
    done = export(make(quick_path / "old", 5), to)
    assert done.bytes == 0
    assert (exported(to), (to / "nodes" / "n1.json").read_bytes()) == before


def test_a_node_that_lost_its_disk_numbers_its_files_anew(quick_path: Path) -> None:
    """Delivery files of a directory made anew stand beside those of the former one, though their names are the same."""
    first, second, to = make(quick_path / "1", 7), make(quick_path / "2", 7), quick_path / "export"
    shutil.rmtree(second / "deliveries")
    (second / "deliveries").mkdir()
    (second / "LOCK").unlink()
    (second / "LOCK").write_bytes(lock_line("n1", bytes([7] * 16)))
    hand_over(first, 1)
    hand_over(second, 2)
    export(first, to)
    export(second, to)
    logs = [log for _, partition in read_export(to, Disk())[1] for log in partition.deliveries]
    assert [log.rows for log in logs] == [2, 2]
    assert len({log.store_id for log in logs}) == 2


def test_what_a_power_cut_took_of_the_delivery_log_stays_exported(quick_path: Path) -> None:
    """A file that is shorter than what was exported of it changes nothing; half a row at its end is left out."""
    source, to = make(quick_path / "n1", 7), quick_path / "export"
    hand_over(source, 1, 2)
    path = next((source / "deliveries").glob("*.log"))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[-80:-1])
    export(source, to)
    path.write_bytes(whole[: HEADER_SIZE + 10])
    assert export(source, to).deliveries == 0
    path.write_bytes(whole[:10])
    export(source, to)
    assert whole in exported(to).values()


class _Full(Disk):
    """The place for exports is full."""

    def write(self, fd: int, data: Buffer, offset: int) -> None:
        """Never."""
        raise DiskFailed("write", "/export", 28)


class _Small(Disk):
    """The place for exports has no room."""

    def free_bytes(self, path: Path) -> int:
        """A few bytes."""
        return 100


@pytest.mark.parametrize(
    ("disk", "why"), [(_Full(), "errno 28"), (_Small(), "has 100 bytes free, a day's export needs")]
)
def test_full_place_fails_the_export_alone(quick_path: Path, disk: Disk, why: str) -> None:
    """A place that takes no export is an error of the export, and nothing of it counts."""
    source = make(quick_path / "n1", 7)
    with pytest.raises(ExportRefused, match=why):
        export(source, quick_path / "export", disk)
    assert read_export(quick_path / "export", Disk()) == ({}, [])


def test_an_export_leaves_the_node_its_reserve(quick_path: Path) -> None:
    """Beside the data it does not take the room that the node keeps for its work."""
    source = make(quick_path / "n1", 7)
    run = Export(read_source(source, Disk(), NOW), quick_path / "e", Disk(), beside=source, reserve_bytes=1 << 60)
    with pytest.raises(ExportRefused, match="keeps 1152921504606846976 of them for the node"):
        run.run()


def test_one_run_at_a_time(quick_path: Path) -> None:
    """A second run of the same node to the same place is refused while the first goes on."""
    source, to = make(quick_path / "n1", 7), quick_path / "export"
    first = Export(read_source(source, Disk(), NOW), to, Disk()).steps()
    next(first)
    with pytest.raises(ExportRefused, match="by another process"):
        export(source, to)
    first.close()
    export(source, to)
    assert_holds(source, to)


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _day(to: Path) -> Path:
    return to / f"dt={day_of(HOUR)}" / "node=n1"


def _other_cluster(to: Path) -> None:
    path = _day(to) / MANIFEST
    path.write_bytes(
        encode(Partition(format=1, cluster_id="ff" * 16, group=0, node="n1", dt=path.parent.parent.name[3:]))
    )


def _other_history(to: Path) -> None:
    _flip(_day(to) / f"hours/{HOUR}/index", -3)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda to: _cut(_day(to) / f"hours/{HOUR}/index"), "it was damaged"),
        (lambda to: _flip(_day(to) / f"hours/{HOUR}/index", 3), "begins otherwise"),
        (lambda to: _flip(_day(to) / MANIFEST, 40), "remove its directory"),
        (_other_cluster, "holds n1 of cluster ffff"),
        (_other_history, "not of one history"),
    ],
    ids=["cut", "header", "manifest", "cluster", "history"],
)
def test_what_is_not_to_be_continued_is_refused(quick_path: Path, harm: Callable[[Path], None], why: str) -> None:
    """An export that is damaged, another cluster's or another history's is left as it is, and the reason named."""
    source, to = make(quick_path / "n1", 5), quick_path / "export"
    export(source, to)
    go_on(source, FEW, [append(9_000)])
    harm(to)
    before = {path: path.read_bytes() for path in to.rglob("*") if path.is_file()}
    with pytest.raises(ExportRefused, match=why):
        export(source, to)
    assert {path: path.read_bytes() for path in to.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("file", ["index", "settle", "log"])
def test_damage_in_the_directory_is_not_exported(quick_path: Path, file: str) -> None:
    """A row or a record header that is not as written ends the run, and nothing of that day counts."""
    source, to = make(quick_path / "n1", 7), quick_path / "export"
    _flip(source / "hours" / str(HOUR) / file, HEADER_SIZE + 60 if file == "log" else HEADER_SIZE + 20)
    with pytest.raises(Corrupt, match=f"{HOUR}/{file}"):
        export(source, to)
    assert not read_export(to, Disk())[1]


class _Unlinking(Disk):
    """The node removes an hour while the export has begun."""

    def __init__(self, hour: Path, after: int) -> None:
        self._hour = hour
        self._after = after

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Reads so many times first."""
        self._after -= 1
        if not self._after:
            shutil.rmtree(self._hour)
        return super().read(fd, size, offset)


def test_an_hour_that_is_unlinked_meanwhile(quick_path: Path) -> None:
    """A node that goes on may remove an hour under a run from outside: that hour is left out, or whole."""
    to = quick_path / "export"
    for after in range(1, 60):
        source = make(quick_path / "n1", 7)
        export(source, to, _Unlinking(source / "hours" / str(HOUR), after))
        report = verify_export(to)
        assert report.sound, report.faults
        assert report.hours in (2, 3)
        shutil.rmtree(to)
        shutil.rmtree(source)


def test_every_flipped_byte_of_an_export_is_found(quick_path: Path) -> None:
    """A bit flipped in what the manifests name, or in them, is found by verify; what is behind is none of it."""
    source, to = make(quick_path / "n1", 7), quick_path / "export"
    hand_over(source, 5)
    export(source, to)
    assert is_export(to, Disk())
    assert not is_export(source, Disk())
    for path in sorted(path for path in to.rglob("*") if path.is_file() and path.suffix != ".lock"):
        sound = path.read_bytes()
        for at in range(0, len(sound), max(1, len(sound) // 40)):
            path.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << at % 8]) + sound[at + 1 :])
            assert not verify_export(to).sound, f"byte {at} of {path}"
        path.write_bytes(sound)
    longer = _day(to) / f"hours/{HOUR}/index"
    longer.write_bytes(longer.read_bytes() + b"of a run that was stopped")
    assert verify_export(to).sound
    longer.unlink()
    assert "missing" in verify_export(to).faults[0]
