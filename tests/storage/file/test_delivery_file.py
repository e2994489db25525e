"""The delivery log's files: what is appended is read back, whatever a crash leaves at the end."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.file.delivery_file import BACK_MS, DeliveryWriter, delivery_files, read_delivery_file
from storage.file.disk import Disk
from storage.format.position import HOUR_MS
from storage.format.rows import HEADER_SIZE, Corrupt, join_rows
from storage.record.delivery_record import DELIVERY, GOES_ON, PUSH, START, Deliveries, read_deliveries, seal_deliveries

CLUSTER = bytes(range(16))
NOW_MS = 1_790_000_000_000
FAR_MS = NOW_MS + 1_000 * HOUR_MS


def rows(count: int, first: int = 0) -> Deliveries:
    """Starts of pushes, numbered by their home."""
    made = np.zeros(count, DELIVERY)
    made["home"] = np.arange(first, first + count)
    made["random"] = 7
    made["at_ms"] = NOW_MS
    made["kind"] = START
    made["mode"] = PUSH
    return made


def writer(directory: Path) -> DeliveryWriter:
    """A log begun at a start of a node."""
    return DeliveryWriter(directory, Disk(), group=0, cluster_id=CLUSTER)


def homes(directory: Path) -> list[int]:
    """The homes of all hand-overs, in order."""
    rows = records(directory)
    homes: list[int] = rows["home"][rows["kind"] != GOES_ON].tolist()
    return homes


def records(directory: Path) -> Deliveries:
    """All records, in order."""
    disk = Disk()
    files = delivery_files(directory, disk)
    return join_rows(
        [found for file in files for found, _ in read_delivery_file(directory / file.name, disk)], DELIVERY
    )


def test_what_is_appended_is_read_back_in_order_over_restarts(tmp_path: Path) -> None:
    """A start begins a file of its own."""
    for start in (0, 10):
        log = writer(tmp_path)
        log.append(rows(4, start), NOW_MS)
        log.append(rows(2, start + 4), NOW_MS)
        log.close()
    assert homes(tmp_path) == [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15]
    assert [file.sequence for file in delivery_files(tmp_path, Disk())] == [1, 2]


def test_another_hour_begins_another_file_and_so_does_a_clock_that_goes_far_back(tmp_path: Path) -> None:
    """A file holds no record of a later hour than its own, and none from long before another of its own."""
    log = writer(tmp_path)
    for at_ms in (NOW_MS, NOW_MS + HOUR_MS, NOW_MS + HOUR_MS - BACK_MS, NOW_MS, NOW_MS - 1000):
        log.append(rows(1), at_ms)
    log.close()
    hours = [file.hour for file in delivery_files(tmp_path, Disk())]
    assert hours == [NOW_MS // HOUR_MS, NOW_MS // HOUR_MS + 1, NOW_MS // HOUR_MS]
    assert len(homes(tmp_path)) == 5
    found = records(tmp_path)
    heads = found[found["kind"] == GOES_ON]
    assert heads["took_ms"].tolist() == [1, 3]  # each with what goes on
    assert heads["at_ms"].tolist() == [NOW_MS + HOUR_MS, NOW_MS]


def test_a_full_file_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By size too."""
    monkeypatch.setattr("storage.file.delivery_file.FILE_BYTES_MAX", 1000)
    log = writer(tmp_path)
    for start in range(0, 40, 10):
        log.append(rows(10, start), NOW_MS)
    log.close()
    assert len(delivery_files(tmp_path, Disk())) == 2
    assert homes(tmp_path) == list(range(40))


def test_files_are_removed_when_their_hour_is_long_over_but_never_the_open_one(tmp_path: Path) -> None:
    """Nor what is not ours."""
    log = writer(tmp_path)
    log.append(rows(1), NOW_MS)
    log.append(rows(1, 1), NOW_MS + HOUR_MS)
    end_ms = (NOW_MS // HOUR_MS + 1) * HOUR_MS
    log.append(rows(1, 2), NOW_MS + 2 * HOUR_MS)
    assert log.remove_before(end_ms, now_ms=FAR_MS) == 0  # up to the next file it tells of a time that is not over
    assert log.remove_before(end_ms + HOUR_MS - 1, now_ms=FAR_MS) == 0
    assert log.remove_before(end_ms + HOUR_MS, now_ms=FAR_MS) == 1
    assert log.remove_before(end_ms + 100 * HOUR_MS, now_ms=FAR_MS) == 1
    assert homes(tmp_path) == [2]
    (tmp_path / "notes.txt").write_text("not ours")
    log.append(rows(1, 3), NOW_MS + 2 * HOUR_MS)
    log.close()
    assert homes(tmp_path) == [2, 3]


def test_a_file_of_a_clock_that_was_far_ahead_goes_with_those_beside_it(tmp_path: Path) -> None:
    """Files go in order: one that is never old would keep all behind it. Until then it stays, and tells."""
    log = writer(tmp_path)
    for hour in (0, 3_000, 3_001, 1, 2):
        log.append(rows(1, hour), NOW_MS + hour * HOUR_MS)
    log.close()
    for hours, removed in ((1, 0), (2, 3), (3, 1), (9, 0)):
        before_ms = (NOW_MS // HOUR_MS + hours) * HOUR_MS
        now_ms = before_ms + 5 * HOUR_MS
        assert log.remove_before(before_ms, now_ms=now_ms) == removed, hours
    assert homes(tmp_path) == [2]


@given(cut=st.integers(0, HEADER_SIZE + 5 * DELIVERY.itemsize))
def test_a_torn_end_loses_the_torn_record_alone(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    """Wherever the process was stopped."""
    directory = tmp_path_factory.mktemp("deliveries")
    log = writer(directory)
    log.append(rows(5), NOW_MS)
    log.close()
    path = directory / delivery_files(directory, Disk())[0].name
    path.write_bytes(path.read_bytes()[:cut])
    whole = max(0, cut - HEADER_SIZE) // DELIVERY.itemsize
    assert homes(directory) == list(range(whole))


def test_a_span_that_a_power_cut_left_unwritten_is_counted_and_left_out() -> None:
    """The log is not synced."""
    made = rows(5)
    seal_deliveries(made)
    data = bytearray(made.tobytes())
    data[80:240] = bytes(160)
    found, unwritten = read_deliveries(bytes(data), "x.log")
    assert found["home"].tolist() == [0, 3, 4]
    assert unwritten == 2


@pytest.mark.parametrize("lost", ["before", "behind", "elsewhere"])
def test_a_row_that_a_power_cut_left_half_was_never_written_either(lost: str) -> None:
    """A sector ends within row 5. What is no zeros is damage."""
    made = rows(7)
    seal_deliveries(made)
    data = bytearray(made.tobytes())
    begins, edge = 5 * 80, 512 - HEADER_SIZE
    assert begins < edge < begins + 80
    start, end = {"before": (0, edge), "behind": (edge, begins + 80), "elsewhere": (edge - 8, edge + 8)}[lost]
    data[start:end] = (b"x" if lost == "elsewhere" else b"\0") * (end - start)
    if lost == "elsewhere":
        with pytest.raises(Corrupt, match="delivery 5 "):
            read_deliveries(bytes(data), "x.log")
    else:
        found, unwritten = read_deliveries(bytes(data), "x.log")
        assert found["home"].tolist() == ([6] if lost == "before" else [0, 1, 2, 3, 4, 6])
        assert unwritten == (6 if lost == "before" else 1)


@given(bit=st.integers(0, 3 * 80 * 8 - 1))
def test_any_flipped_bit_is_found_with_its_record(bit: int) -> None:
    """The message names the record by its place in the file."""
    made = rows(3)
    seal_deliveries(made)
    data = bytearray(made.tobytes())
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Corrupt, match=f"delivery {5 + bit // 640} "):
        read_deliveries(bytes(data), "x.log", 5)


def test_a_damaged_header_is_refused(tmp_path: Path) -> None:
    """A good one is not."""
    log = writer(tmp_path)
    log.append(rows(1), NOW_MS)
    log.close()
    path = tmp_path / delivery_files(tmp_path, Disk())[0].name
    data = path.read_bytes()
    path.write_bytes(b"X" + data[1:])
    with pytest.raises(Corrupt):
        list(read_delivery_file(path, Disk()))
    path.write_bytes(data)
    assert len(list(read_delivery_file(path, Disk()))) == 1
