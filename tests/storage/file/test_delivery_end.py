"""A killed leader's term gets its end from its own node, in the same run of the machine alone (FOUND D5)."""

from pathlib import Path

import numpy as np
import pytest

from node.handover.delivery_log import PULL, DeliveryLog, Mark
from node.runtime.boot import read_boot
from node.runtime.entropy import Entropy
from replication.command.dispatch import DispatchState
from storage.file.delivery_end import end_killed_term
from storage.file.delivery_file import delivery_files, read_delivery_file
from storage.file.disk import Disk
from storage.format.position import HOUR_MS
from storage.format.rows import join_rows
from storage.record.delivery_record import (
    DELIVERED,
    DELIVERY,
    END,
    GOES_ON,
    HANDED_ON,
    KILLED,
    LOST,
    START,
    TERM_BEGUN,
    TERM_ENDED,
    Deliveries,
)

NOW_MS = 1_790_000_000_000
BOOT = 77


class Synced(Disk):
    """Tells which files were synced, and where."""

    def __init__(self) -> None:
        self.directories = 0
        self.files = 0

    def fdatasync(self, fd: int) -> None:
        """See Disk."""
        self.files += 1
        super().fdatasync(fd)

    def fsync_directory(self, path: Path) -> None:
        """See Disk."""
        self.directories += 1
        super().fsync_directory(path)


def log_of(directory: Path) -> DeliveryLog:
    """Begun at a start of node 2."""
    state = DispatchState(100, 3, 9)
    return DeliveryLog(directory, Disk(), group=0, node=2, cluster_id=lambda: bytes(range(16)), state=lambda: state)


def hand_over(log: DeliveryLog, at_ms: int) -> None:
    """A start of term 7."""
    home, attempt, due_ms = np.array([5], np.uint64), np.array([1], np.uint16), np.array([at_ms])
    log.start(home=home, random=home, attempt=attempt, asked_due_ms=due_ms, topic=1, term=7, at_ms=at_ms, mode=PULL)


def end(directory: Path) -> tuple[int, int]:
    """End the killed term; how many files and directories were synced for that."""
    disk = Synced()
    assert end_killed_term(directory, disk, BOOT)
    return disk.files, disk.directories


def records(directory: Path) -> Deliveries:
    """All there are."""
    disk = Disk()
    files = [directory / file.name for file in delivery_files(directory, disk)]
    return join_rows([rows for file in files for rows, _ in read_delivery_file(file, disk)], DELIVERY)


def test_a_killed_term_ends_at_its_last_record_and_what_it_wrote_is_durable_first(tmp_path: Path) -> None:
    """Of several files too, once, with the node and the cluster of the log; so a later power cut takes nothing that the
    end says is there."""
    log = log_of(tmp_path)
    log.term_begun(7, NOW_MS, Mark(BOOT, 6))
    hand_over(log, NOW_MS + 10)
    hand_over(log, NOW_MS + HOUR_MS)
    log.close()
    assert end(tmp_path) == (2, 1)
    assert not end_killed_term(tmp_path, Disk(), BOOT)
    rows = records(tmp_path)
    assert rows["kind"].tolist() == [TERM_BEGUN, START, GOES_ON, START, TERM_ENDED]
    assert rows[["term", "node", "at_ms", "code"]].tolist()[-1] == (7, 2, NOW_MS + HOUR_MS, KILLED)
    assert (rows["random"].tolist()[-1], rows["took_ms"].tolist()[-1]) == (0, 0)


def test_what_a_term_wrote_before_it_had_its_mark_is_durable_before_its_end_too(tmp_path: Path) -> None:
    """Plan 11 of `chaos run`: a leader whose level had risen was killed, was back and ended its term; a power cut took
    the file before the mark, and the ledger said that what it had handed over there was lost."""
    log = log_of(tmp_path)
    log.term_begun(7, NOW_MS)
    hand_over(log, NOW_MS + 10)
    log.term_begun(7, NOW_MS + 20, Mark(BOOT, 6))
    hand_over(log, NOW_MS + 30)
    hand_over(log, NOW_MS + HOUR_MS)
    log.close()
    assert end(tmp_path) == (3, 1)
    rows = records(tmp_path)
    assert rows["kind"].tolist() == [TERM_BEGUN, START, GOES_ON, START, GOES_ON, START, TERM_ENDED]
    goes_on = rows[rows["kind"] == GOES_ON]
    assert goes_on[["term", "random", "home", "took_ms"]].tolist() == [(7, BOOT, 6, 2), (7, BOOT, 6, 2)]


@pytest.mark.parametrize("mark", [Mark(BOOT + 1, 6), None])
def test_in_another_run_of_the_machine_nobody_knows_how_a_term_ended(tmp_path: Path, mark: Mark | None) -> None:
    """The power went, and its newest records may have gone with it. Below level 3 nothing tells."""
    log = log_of(tmp_path)
    log.term_begun(7, NOW_MS, mark)
    hand_over(log, NOW_MS + 10)
    log.close()
    assert not end_killed_term(tmp_path, Disk(), BOOT)
    assert records(tmp_path)["kind"].tolist() == [TERM_BEGUN, START]


def test_a_term_that_has_an_end_and_a_log_without_terms_get_none(tmp_path: Path) -> None:
    """Nor does a file that was begun and holds nothing get in the way."""
    assert not end_killed_term(tmp_path, Disk(), BOOT)
    log = log_of(tmp_path)
    log.term_begun(7, NOW_MS, Mark(BOOT, 6))
    log.term_ended(7, NOW_MS + 1, LOST)
    assert not end_killed_term(tmp_path, Disk(), BOOT)
    log.term_begun(8, NOW_MS + 2, Mark(BOOT, 7))
    log.close()
    (tmp_path / f"{NOW_MS // HOUR_MS}-000003.log").write_bytes(b"HWDEL")
    assert end_killed_term(tmp_path, Disk(), BOOT)
    assert records(tmp_path)[["term", "kind"]].tolist()[-1] == (8, TERM_ENDED)


def test_the_run_of_the_machine_has_a_number_that_stays_and_without_one_each_process_its_own(tmp_path: Path) -> None:
    """What is not known to be the same run is taken for another."""
    disk, entropy = Disk(), Entropy()
    path = tmp_path / "boot_id"
    path.write_text("0123abcd-4567-89ab-cdef-0123456789ab\n")
    assert read_boot(disk, entropy, path) == read_boot(disk, entropy, path) == 0xAB8967_45CDAB2301
    for text in ("", "no id\n"):
        path.write_text(text)
        assert read_boot(disk, entropy, path) != read_boot(disk, entropy, path)
    assert read_boot(disk, entropy, tmp_path / "none") != 0


def test_a_killed_term_whose_beginning_went_by_age_gets_its_end(tmp_path: Path) -> None:
    """By the mark in its later files; not in another run of the machine."""
    log = log_of(tmp_path)
    log.term_begun(7, NOW_MS, Mark(BOOT, 6))
    for hour in range(1, 3):
        hand_over(log, NOW_MS + hour * HOUR_MS)
    log.close()
    (tmp_path / delivery_files(tmp_path, Disk())[0].name).unlink()
    assert not end_killed_term(tmp_path, Disk(), BOOT + 1)
    assert end_killed_term(tmp_path, Disk(), BOOT)
    last = records(tmp_path)[-1]
    assert last[["term", "kind", "code", "home", "random", "took_ms"]].item() == (7, TERM_ENDED, KILLED, 0, 0, 0)


def test_a_term_that_ended_is_not_ended_again_by_what_is_heard_later(tmp_path: Path) -> None:
    """The outcome of one of its hand-overs is in a file of its own. The term was handed on, not killed."""
    log = log_of(tmp_path)
    log.term_begun(7, NOW_MS, Mark(BOOT, 6))
    hand_over(log, NOW_MS + 10)
    log.term_ended(7, NOW_MS + 20, HANDED_ON)
    home = np.array([5], np.uint64)
    log.end(
        home=home, random=home, attempt=np.array([1], np.uint16), term=7, topic=1, at_ms=NOW_MS + 30, mode=PULL,
        outcome=DELIVERED,
    )  # fmt: skip
    log.close()
    assert not end_killed_term(tmp_path, Disk(), BOOT)
    assert records(tmp_path)["kind"].tolist() == [TERM_BEGUN, START, TERM_ENDED, END]
