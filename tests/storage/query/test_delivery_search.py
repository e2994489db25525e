"""Hand-overs are found by time and message, terms by the edges of files, and what cannot be read is a hole that is
told."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.file.delivery_file import DeliveryWriter, delivery_files
from storage.file.disk import Disk
from storage.format.position import HOUR_MS
from storage.format.rows import HEADER_SIZE
from storage.query import delivery_search
from storage.query.delivery_search import SAMPLE_ROWS, DeliverySearch, Search, SearchTooLarge
from storage.record.delivery_record import DELIVERY, END, GOES_ON, PUSH, START, TERM_BEGUN, TERM_ENDED, Deliveries
from tests.examples import examples

NOW_MS = 1_790_000_000_000
EVER = (0, 1 << 60)


def rows(*wanted: tuple[int, int, int]) -> Deliveries:
    """Records of (kind, home, at_ms)."""
    made = np.zeros(len(wanted), DELIVERY)
    made["mode"] = PUSH
    for row, (kind, home, at_ms) in enumerate(wanted):
        made["kind"][row], made["home"][row], made["at_ms"][row] = kind, home, at_ms
    return made


def writer(directory: Path) -> DeliveryWriter:
    """A log begun at a start of a node."""
    return DeliveryWriter(directory, Disk(), group=0, cluster_id=bytes(range(16)))


def sought(*homes: int, from_ms: int = EVER[0], until_ms: int = EVER[1]) -> Search:
    """A search for these messages."""
    return Search(np.array(homes, np.uint64), from_ms, until_ms)


@examples(60)
@given(
    steps=st.lists(st.tuples(st.integers(0, 9), st.integers(-15_000, 40 * 60_000)), min_size=1, max_size=60),
    homes=st.sets(st.integers(0, 9)),
    window=st.tuples(st.integers(-20_000, 8 * HOUR_MS), st.integers(0, 4 * HOUR_MS)),
    sample=st.integers(1, 7),
)
def test_what_is_found_is_what_a_look_at_every_record_finds(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int]],
    homes: set[int],
    window: tuple[int, int],
    sample: int,
) -> None:
    """Whatever the clock did: it may go back, a little or far, and jump ahead; files end by the hour and by size."""
    directory = tmp_path_factory.mktemp("deliveries")
    log, now_ms, model = writer(directory), NOW_MS, []
    from_ms, until_ms = NOW_MS + window[0], NOW_MS + sum(window)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("storage.file.delivery_file.FILE_BYTES_MAX", HEADER_SIZE + 9 * DELIVERY.itemsize)
        patch.setattr(delivery_search, "SAMPLE_ROWS", sample)
        for home, step_ms in steps:
            now_ms += step_ms
            log.append(rows((START, home, now_ms)), now_ms)
            if home in homes and from_ms <= now_ms < until_ms:
                model.append((home, now_ms))
        search = sought(*sorted(homes), from_ms=from_ms, until_ms=until_ms)
        found = DeliverySearch(directory, Disk()).run(search, log.written())
    log.close()
    assert [tuple(row) for row in found.rows[["home", "at_ms"]].tolist()] == model
    assert not found.holes


def test_terms_stand_at_the_edges_of_files_also_of_those_that_are_not_read(tmp_path: Path) -> None:
    """With each file's last start. A file is looked at once only, unless it still grows."""
    log = writer(tmp_path)
    for hour, kind in enumerate((TERM_BEGUN, START, END, TERM_ENDED)):
        at_ms = NOW_MS + hour * HOUR_MS
        log.append(rows((kind, 1, at_ms), (START, 2, at_ms), (kind, 1, at_ms)), at_ms)
    search = DeliverySearch(tmp_path, Disk())
    late = sought(2, from_ms=NOW_MS + 3 * HOUR_MS)
    found = search.run(late, log.written())
    edges = [TERM_BEGUN, START, TERM_BEGUN, GOES_ON, START, GOES_ON, START, END, GOES_ON, START, TERM_ENDED]
    assert found.edges["kind"].tolist() == edges
    assert (found.rows["home"].tolist(), found.looked) == ([2], 4)
    log.append(rows((END, 7, at_ms)), at_ms)
    again = search.run(late, log.written())
    assert again.edges["home"].tolist()[-1] == 7
    assert again.edges["kind"].tolist()[:-1] == found.edges["kind"].tolist()[:-1]
    log.close()


@pytest.mark.parametrize("ends", [0, 1, SAMPLE_ROWS, 2 * SAMPLE_ROWS + 5])
def test_the_last_start_of_a_file_is_found_however_far_from_its_end(tmp_path: Path, ends: int) -> None:
    """Ends of older hand-overs may stand behind it, and zeros that a power cut left."""
    log = writer(tmp_path)
    log.append(rows((TERM_BEGUN, 0, NOW_MS), (START, 1, NOW_MS), (START, 2, NOW_MS + 1)), NOW_MS)
    log.append(rows(*((END, 3 + row, NOW_MS + 2) for row in range(ends))), NOW_MS + 2)
    log.close()
    (file,) = delivery_files(tmp_path, Disk())
    path = tmp_path / file.name
    path.write_bytes(path.read_bytes() + bytes(DELIVERY.itemsize))
    edges = DeliverySearch(tmp_path, Disk()).run(sought()).edges
    assert edges["home"].tolist() == [0, 2, *([2 + ends] if ends else [])]


def test_of_starts_that_are_as_written_the_last_is_an_edge(tmp_path: Path) -> None:
    """Not those before it, nor one that is damaged; a file of one record has one edge."""
    log = writer(tmp_path)
    starts = [(START, home, NOW_MS + home) for home in range(1, SAMPLE_ROWS + 3)]
    log.append(rows((TERM_BEGUN, 0, NOW_MS), *starts, (END, 1, NOW_MS + SAMPLE_ROWS + 9)), NOW_MS)
    log.close()
    (file,) = delivery_files(tmp_path, Disk())
    path = tmp_path / file.name

    def edges() -> list[int]:
        homes: list[int] = DeliverySearch(tmp_path, Disk()).run(sought()).edges["home"].tolist()
        return homes

    assert edges() == [0, SAMPLE_ROWS + 2, 1]
    whole = bytearray(path.read_bytes())
    whole[-2 * DELIVERY.itemsize + 9] ^= 1
    path.write_bytes(whole)
    assert edges() == [0, SAMPLE_ROWS + 1, 1]
    path.write_bytes(whole[: HEADER_SIZE + DELIVERY.itemsize])
    assert edges() == [0]


def test_rows_that_cannot_be_read_are_a_hole_between_those_that_can(tmp_path: Path) -> None:
    """Zeros of a power cut, damage, and the end of a file: from the record before to the one after, or to the next
    file's hour."""
    log = writer(tmp_path)
    log.append(rows(*((START, home, NOW_MS + home * 100) for home in range(10))), NOW_MS)
    log.close()
    later_ms = NOW_MS + 3 * HOUR_MS
    log = writer(tmp_path)
    log.append(rows((START, 3, later_ms)), later_ms)
    log.close()
    path = tmp_path / delivery_files(tmp_path, Disk())[0].name
    data = bytearray(path.read_bytes())
    size = DELIVERY.itemsize
    data[HEADER_SIZE + 2 * size : HEADER_SIZE + 4 * size] = bytes(2 * size)
    data[HEADER_SIZE + 6 * size + 9] ^= 1
    data[HEADER_SIZE + 9 * size :] = bytes(size)
    path.write_bytes(data)
    found = DeliverySearch(tmp_path, Disk()).run(sought(*range(10)))
    assert found.rows["home"].tolist() == [0, 1, 4, 5, 7, 8, 3]
    hour_ms = later_ms // HOUR_MS * HOUR_MS
    assert found.holes == [(NOW_MS + 100, NOW_MS + 401), (NOW_MS + 500, NOW_MS + 701), (NOW_MS + 800, hour_ms)]


@pytest.mark.parametrize("lost", ["end", "file", "count"])
def test_a_file_that_lost_its_end_is_a_hole_to_the_one_that_goes_on_with_it(tmp_path: Path, lost: str) -> None:
    """FOUND D5 over two files: the older one's end went with the power, or all of it, or nobody can tell. Files that
    are whole, and those whose forerunner went by age, are none; remembered ones tell the same."""
    log = writer(tmp_path)
    for hour in range(3):
        for home in (1, 2):
            log.append(rows((START, home, NOW_MS + hour * HOUR_MS + home)), NOW_MS + hour * HOUR_MS)
    log.close()
    before, cut, after = (tmp_path / file.name for file in delivery_files(tmp_path, Disk()))
    search = DeliverySearch(tmp_path, Disk())
    assert not search.run(sought(1)).holes
    size = DELIVERY.itemsize
    if lost == "end":
        cut.write_bytes(cut.read_bytes()[:-size])
    elif lost == "file":
        cut.unlink()
    else:
        data = after.read_bytes()
        after.write_bytes(data[:HEADER_SIZE] + bytes(size) + data[HEADER_SIZE + size :])
    last_ms = {"end": NOW_MS + HOUR_MS + 1, "file": NOW_MS + 2, "count": NOW_MS + HOUR_MS + 2}[lost]
    next_ms = NOW_MS + 2 * HOUR_MS + 2 * (lost == "count")
    search = DeliverySearch(tmp_path, Disk())
    for _ in range(2):
        assert (last_ms, next_ms + 1) in search.run(sought(from_ms=EVER[1])).holes
    before.unlink()
    if lost == "file":
        assert not search.run(sought(from_ms=EVER[1])).holes


def test_a_file_whose_only_record_is_zeros_is_a_hole(tmp_path: Path) -> None:
    """As the beginning of a term that went on in the next hour."""
    log = writer(tmp_path)
    for at_ms in (NOW_MS, NOW_MS + HOUR_MS):
        log.append(rows((START, 1, at_ms)), at_ms)
    log.close()
    lost, _ = (tmp_path / file.name for file in delivery_files(tmp_path, Disk()))
    lost.write_bytes(lost.read_bytes()[:HEADER_SIZE] + bytes(DELIVERY.itemsize))
    found = DeliverySearch(tmp_path, Disk()).run(sought(1, from_ms=EVER[1]))
    assert (found.holes, found.open_holes) == ([(0, NOW_MS + HOUR_MS + 1)], [])


def test_a_lost_end_before_a_clock_that_went_back_is_a_hole_to_the_end_of_its_hour(tmp_path: Path) -> None:
    """A lost record may be later than the record behind it."""
    log = writer(tmp_path)
    for at_ms in (NOW_MS, NOW_MS + 10_000, NOW_MS - 5_000):
        log.append(rows((START, 1, at_ms)), at_ms)
    log.close()
    cut, _ = (tmp_path / file.name for file in delivery_files(tmp_path, Disk()))
    cut.write_bytes(cut.read_bytes()[: -DELIVERY.itemsize])
    (hole,) = DeliverySearch(tmp_path, Disk()).run(sought(1)).holes
    assert hole == (NOW_MS, (NOW_MS // HOUR_MS + 1) * HOUR_MS)


def test_a_file_that_is_begun_as_a_search_starts_is_looked_at_again(tmp_path: Path) -> None:
    """Nobody knew that it grows: remembered as it was, it would have lost its end when another one goes on with it."""
    log = writer(tmp_path)
    log.append(rows((START, 1, NOW_MS)), NOW_MS)
    log.close()
    search, early = DeliverySearch(tmp_path, Disk()), sought(1, from_ms=NOW_MS, until_ms=NOW_MS + 9)
    written = log.written()
    later_ms = NOW_MS + 5 * HOUR_MS
    log.append(rows((TERM_BEGUN, 0, later_ms)), later_ms)
    search.run(early, written)
    for at_ms in (later_ms, later_ms + HOUR_MS):
        log.append(rows((START, 1, at_ms)), at_ms)
    for _ in range(2):
        assert not search.run(early, log.written()).holes
    log.close()


def test_what_goes_by_age_is_no_hole(tmp_path: Path) -> None:
    """Also after a clock that was ahead, when an older file is of a later hour; and while a search runs."""
    log = writer(tmp_path)
    for hour in (0, 10, 1, 2, 3):
        log.append(rows((START, 1, NOW_MS + hour * HOUR_MS)), NOW_MS + hour * HOUR_MS)

    class Removing(Disk):
        def list_directory(self, directory: Path) -> list[str]:
            names = super().list_directory(directory)
            self.removed = log.remove_before(
                NOW_MS + 12 * HOUR_MS, now_ms=NOW_MS + 13 * HOUR_MS, may_go=lambda file: file.sequence < 4
            )
            return names

    assert log.remove_before(NOW_MS + 5 * HOUR_MS, now_ms=NOW_MS + 11 * HOUR_MS) == 0
    assert not DeliverySearch(tmp_path, Disk()).run(sought(1), log.written()).holes
    disk = Removing()
    found = DeliverySearch(tmp_path, disk).run(sought(1), log.written())
    assert (disk.removed, found.holes, found.removed) == (3, [], True)
    log.close()


def test_a_search_is_bounded(tmp_path: Path) -> None:
    """In what it reads and in what it returns."""
    log = writer(tmp_path)
    log.append(rows(*((START, home, NOW_MS) for home in range(10))), NOW_MS)
    log.close()
    search = DeliverySearch(tmp_path, Disk())
    homes = np.arange(10, dtype=np.uint64)
    with pytest.raises(SearchTooLarge):
        search.run(Search(homes, *EVER, looked_max=9))
    with pytest.raises(SearchTooLarge):
        search.run(Search(homes, *EVER, found_max=9))
    assert len(search.run(Search(homes, *EVER, looked_max=10, found_max=10)).rows) == 10


def test_a_file_without_a_whole_header_and_a_directory_without_files_hold_nothing(tmp_path: Path) -> None:
    """As a crash leaves them, or a node that never led."""
    search = DeliverySearch(tmp_path, Disk())
    assert not len(search.run(sought(1)).rows)
    (tmp_path / f"{NOW_MS // HOUR_MS}-000001.log").write_bytes(b"HWDEL")
    found = search.run(sought(1))
    assert not len(found.rows)
    assert not len(found.edges)
