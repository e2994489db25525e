"""What the terms show to be missing: tails that went with the power, and terms that no account tells of (FOUND D5)."""

from pathlib import Path

import numpy as np
import pytest

from ledger.bucket import SPAN, TERM, Rows
from ledger.columns import Flag, MessageClass
from ledger.terms import merge_terms, terms_of
from ledger.unrecorded import closed, unrecorded
from node.handover.delivery_log import HANDED_ON, LOST, PULL, DeliveryLog, Mark
from replication.command.dispatch import DispatchState
from storage.catalog.doubt import CLOCKS_MS
from storage.file.delivery_end import end_killed_term
from storage.file.delivery_file import delivery_files
from storage.file.disk import Disk
from storage.format.position import EVER_MS, HOUR_MS
from storage.format.rows import HEADER_SIZE
from storage.format.states import DELIVERED
from storage.query.delivery_search import DeliverySearch, FoundDeliveries, Search
from storage.record.delivery_record import DELIVERY, FAILED
from tests.ledger.life import Life, T, told

NOW_MS = 1_790_000_000_000
BOOT = 7
ONCE, DOUBTED = MessageClass.DELIVERED_ONCE, MessageClass.DELIVERED


class Logs:
    """The delivery logs of nodes 1 to 3 in a directory."""

    def __init__(self, directory: Path) -> None:
        self.paths = {node: directory / f"n{node}" for node in (1, 2, 3)}
        for path in self.paths.values():
            path.mkdir()

    def log(self, node: int, tick: int = 0) -> DeliveryLog:
        """Of a node that has just started, and finds that the log is dispatched so far."""
        state = DispatchState(tick, 0, 0)
        return DeliveryLog(
            self.paths[node], Disk(), group=0, node=node, cluster_id=lambda: bytes(16), state=lambda: state
        )

    def lead(
        self,
        node: int,
        term: int,
        from_ms: int,
        until_ms: int,
        *,
        before: int | None,
        ended: bool = False,
        tick: int = 0,
        marked_ms: int | None = None,
    ) -> None:
        """A term with a hand-over at its beginning and one at its end; `before` None: below level 3, to which its
        cluster rises at `marked_ms`."""
        log = self.log(node, tick)
        log.term_begun(term, NOW_MS + from_ms, None if before is None else Mark(BOOT, before))
        home = np.array([5], np.uint64)
        for at_ms in (from_ms, until_ms):
            log.start(
                home=home, random=home, attempt=np.array([1], np.uint16), asked_due_ms=np.array([0]), topic=1,
                term=term, at_ms=NOW_MS + at_ms, mode=PULL,
            )  # fmt: skip
        if marked_ms is not None:
            log.term_begun(term, NOW_MS + marked_ms, Mark(BOOT, term - 1))
        if ended:
            log.term_ended(term, NOW_MS + until_ms, HANDED_ON)
        log.close()

    def lose(self, node: int) -> None:
        """Its disk."""
        for file in delivery_files(self.paths[node], Disk()):
            (self.paths[node] / file.name).unlink()

    def found(self) -> list[FoundDeliveries]:
        """What each node answers of no message."""
        search = Search(np.zeros(0, np.uint64), 0, 0)
        return [DeliverySearch(path, Disk()).run(search) for path in self.paths.values()]

    @property
    def terms(self) -> Rows:
        """As the ledger sees them: by the edges of files alone."""
        return merge_terms([terms_of(each.edges) for each in self.found()])

    def missing(self) -> list[tuple[int, int, int]]:
        """(node, from, until) of what the terms show, after NOW_MS."""
        window_ms = max((each.first_ms for each in self.found() if each.removed), default=0)
        rows = unrecorded(self.terms, window_ms)[["node", "from_ms", "until_ms"]].tolist()
        return [(node, from_ms - NOW_MS if from_ms else 0, until_ms - NOW_MS) for node, from_ms, until_ms in rows]


@pytest.fixture(name="logs")
def _logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def test_d5_a_term_without_an_end_misses_from_its_last_record_to_the_next_term(logs: Logs) -> None:
    """A second longer, for that is another node's clock. By the clocks the next may seem to begin before."""
    logs.lead(1, 1, 0, 500, before=0)
    logs.lead(2, 2, 900, 4_000, before=1)
    assert logs.missing() == [(1, 500, 900 + CLOCKS_MS)]
    logs.lead(1, 3, 3_700, 5_000, before=2)
    assert logs.missing() == [(1, 500, 900 + CLOCKS_MS), (2, 3_700, 3_700 + CLOCKS_MS)]


def test_d5_a_term_that_ended_in_order_or_whose_killed_node_came_back_misses_nothing(logs: Logs) -> None:
    """Nor does the newest, which may still be led."""
    logs.lead(1, 1, 0, 500, before=0, ended=True)
    logs.lead(2, 2, 900, 2_000, before=1)
    assert end_killed_term(logs.paths[2], Disk(), BOOT)
    logs.lead(3, 5, 3_000, 4_000, before=None, ended=True)  # terms 3 and 4 were elections that nobody won
    logs.lead(1, 6, 5_000, 6_000, before=5)
    assert logs.missing() == []


def test_a_term_whose_mark_was_lost_with_its_file_misses_what_is_behind_that(logs: Logs) -> None:
    """The power took the file that the mark is in, and its name. Before unmarked terms nobody knows of marks."""
    logs.lead(3, 1, 0, 100, before=None)
    logs.lead(2, 2, 200, 300, before=None)
    logs.lead(1, 3, 400, 500, before=None, marked_ms=700)
    _, marked = delivery_files(logs.paths[1], Disk())
    (logs.paths[1] / marked.name).unlink()
    logs.lead(2, 4, 1_900, 2_000, before=3)
    assert logs.missing() == [(1, 500, 1_900 + CLOCKS_MS)]


@pytest.mark.parametrize("kept", [0, HEADER_SIZE])
def test_what_is_lost_behind_a_clock_that_was_put_right_is_a_hole(logs: Logs, kept: int) -> None:
    """Its time is before that of the file before: 20 minutes, and the hour of its name is all that is left."""
    logs.lead(1, 1, 1_200_000, 1_200_500, before=0, ended=True)
    logs.lead(1, 3, 100, 200, before=None, marked_ms=700)
    _, lost, _ = delivery_files(logs.paths[1], Disk())
    (logs.paths[1] / lost.name).write_bytes((logs.paths[1] / lost.name).read_bytes()[:kept])
    assert any(from_ms <= NOW_MS + 100 < until_ms for from_ms, until_ms in logs.found()[0].holes)


def test_d5_a_term_that_no_account_tells_of_misses_from_the_end_of_the_one_before(logs: Logs) -> None:
    """Or from ever, where none is. Of several that are gone the time is one. By the clocks it may have begun before."""
    logs.lead(1, 1, 0, 500, before=0, ended=True)
    logs.lead(2, 2, 900, 2_000, before=1)
    logs.lead(2, 3, 2_500, 2_600, before=2)
    logs.lead(3, 5, 3_000, 4_000, before=3)
    logs.lose(2)
    assert logs.missing() == [(0, 500 - CLOCKS_MS, 3_000 + CLOCKS_MS)]
    logs.lose(1)
    assert logs.missing() == [(0, 0, 3_000 + CLOCKS_MS)]


def test_d5_a_log_that_lost_its_old_files_by_age_is_no_lost_log(logs: Logs) -> None:
    """The newest of the old files stays, and tells that its node led: else each failover would be a gap when the files
    of the term before it are over."""
    logs.lead(1, 1, 0, 500, before=0, ended=True)
    logs.lead(1, 2, HOUR_MS, HOUR_MS + 9, before=1, ended=True)
    logs.lead(2, 3, 30 * HOUR_MS, 31 * HOUR_MS, before=2)
    for node in (1, 2):
        logs.log(node).remove_before(NOW_MS + 30 * HOUR_MS, now_ms=NOW_MS + 31 * HOUR_MS)
    assert len(delivery_files(logs.paths[1], Disk())) == 1
    assert logs.missing() == []


def test_d5_a_term_that_was_passed_by_hides_none_before_it(logs: Logs) -> None:
    """It was lost before its leader was established. It says which one was before, as one that was led does."""
    logs.lead(1, 1, 0, 500, before=0, ended=True)
    logs.lead(2, 2, 900, 2_000, before=1)
    logs.lose(2)
    log = logs.log(3)
    log.term_ended(3, NOW_MS + 2_500, LOST, Mark(BOOT, 2))
    log.close()
    logs.lead(1, 4, 3_000, 4_000, before=3)
    assert logs.missing() == [(0, 500 - CLOCKS_MS, 2_500 + CLOCKS_MS)]


@pytest.mark.parametrize("aged", [False, True])
def test_d5_a_term_that_outlasts_its_beginning(logs: Logs, aged: bool) -> None:
    """A leader of days: its first file went by age, and its later ones have the mark, too."""
    logs.lead(1, 1, 0, 500, before=0, ended=True)
    logs.lead(2, 2, 900, 40 * HOUR_MS, before=1)
    if aged:
        assert logs.log(2).remove_before(NOW_MS + 60 * HOUR_MS, now_ms=NOW_MS + 80 * HOUR_MS) == 1
    logs.lead(3, 3, 41 * HOUR_MS, 42 * HOUR_MS, before=2)
    assert logs.missing() == [(2, 40 * HOUR_MS, 41 * HOUR_MS + CLOCKS_MS)]


def test_d5_an_end_that_was_written_late_hides_nothing(logs: Logs) -> None:
    """Its leader stood still while another one led: its last hand-over counts."""
    log = logs.log(1)
    log.term_begun(1, NOW_MS, Mark(BOOT, 0))
    log.term_ended(1, NOW_MS + 10_000, LOST)
    log.close()
    logs.lead(2, 2, 900, 5_000, before=1)
    logs.lose(2)
    logs.lead(3, 3, 6_000, 7_000, before=2)
    assert logs.missing() == [(0, -CLOCKS_MS, 6_000 + CLOCKS_MS)]


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("older", [False, True])
def test_d5_a_file_that_was_lost_whole_after_another_node_led(
    logs: Logs, zeros: bool, older: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that goes on with it tells its end. Term 4, of another node, lies in the hole, and does not end it."""
    if older:
        logs.lead(1, 3, -400_000, -350_000, before=2, ended=True)
    logs.lead(2, 4, -300_000, -200_000, before=3, ended=True)
    log = logs.log(1)
    log.term_begun(5, NOW_MS - 199_000, Mark(BOOT, 4))
    home = np.array([5], np.uint64)
    log.start(
        home=home, random=home, attempt=np.array([1], np.uint16), asked_due_ms=np.array([0]), topic=1,
        term=5, at_ms=NOW_MS, mode=PULL,
    )  # fmt: skip
    lost = logs.paths[1] / delivery_files(logs.paths[1], Disk())[-1].name
    monkeypatch.setattr("storage.file.delivery_file.FILE_BYTES_MAX", HEADER_SIZE + 2 * DELIVERY.itemsize)
    log.term_ended(5, NOW_MS + 50, LOST)
    log.close()
    lost.write_bytes(lost.read_bytes()[:HEADER_SIZE] + bytes(2 * DELIVERY.itemsize) if zeros else b"")
    logs.lead(2, 6, 700, 720, before=5)
    search = Search(np.zeros(0, np.uint64), NOW_MS - 10_000, NOW_MS + 60_000)
    found = DeliverySearch(logs.paths[1], Disk()).run(search)
    holes = [hole for hole in found.holes if hole not in found.open_holes]
    holes += closed(np.array([(1, 0, 0, *hole) for hole in found.open_holes], SPAN), logs.terms)[
        ["from_ms", "until_ms"]
    ].tolist()
    assert any(from_ms <= NOW_MS < until_ms for from_ms, until_ms in holes)


def test_d5_a_term_over_two_files_of_which_the_older_lost_its_end(logs: Logs) -> None:
    """Its end is on record, in the newer one, and the terms show nothing missing."""
    logs.lead(1, 1, HOUR_MS - 500, 2 * HOUR_MS, before=0, ended=True)
    logs.lead(2, 2, 3 * HOUR_MS, 3 * HOUR_MS + 9, before=1)
    older, _ = delivery_files(logs.paths[1], Disk())
    path = logs.paths[1] / older.name
    path.write_bytes(path.read_bytes()[: -DELIVERY.itemsize])
    assert logs.missing() == []
    holes = logs.found()[0].holes
    assert not logs.found()[0].open_holes
    assert [(from_ms - NOW_MS, until_ms - NOW_MS) for from_ms, until_ms in holes] == [(HOUR_MS - 500, 2 * HOUR_MS + 1)]


def test_a_gap_does_not_end_by_the_clock_of_a_leader_that_is_wrong(logs: Logs) -> None:
    """Seed 34325: a leader lost power, and the next one's clock was 47 s behind. What it found in the log had been
    dispatched by the one before: up to then, and a while after, that one led."""
    logs.lead(1, 1, 0, 500, before=0, ended=True)
    tick = NOW_MS // 1_000 + 5
    logs.lead(3, 3, -47_000, -46_000, before=2, tick=tick)
    assert logs.missing() == [(0, -47_000, 6_000 + CLOCKS_MS)]
    logs.lead(2, 4, 7_000, 7_500, before=3)
    assert logs.missing() == [(0, -47_000, 6_000 + CLOCKS_MS), (3, -46_000, 7_000 + CLOCKS_MS)]
    hole = np.array([(1, 0, 0, NOW_MS + 500, 1 << 60)], SPAN)
    assert (closed(hole, logs.terms)["until_ms"] - NOW_MS).tolist() == [7_000 + CLOCKS_MS]


def test_what_a_leader_found_is_told_by_the_first_record_of_its_term(logs: Logs) -> None:
    """When its cluster rises its log goes on with the mark, behind what it has dispatched itself."""
    second = NOW_MS // 1_000
    logs.lead(1, 1, 0, 500, before=0, ended=True)
    logs.lead(2, 3, 1_900, 2_000, before=None, tick=second, marked_ms=2_100)
    assert logs.missing() == [(0, -500, 1_900 + CLOCKS_MS)]


@pytest.mark.parametrize(("until_ms", "marked_ms"), [(500, 700), (500, HOUR_MS), (HOUR_MS + 5, HOUR_MS - 3)])
@pytest.mark.parametrize("lost", [1, DELIVERY.itemsize, DELIVERY.itemsize + 1, 2 * DELIVERY.itemsize, 1_000])
def test_what_a_term_wrote_before_its_mark_and_lost_with_the_power_is_a_hole(
    logs: Logs, until_ms: int, marked_ms: int, lost: int
) -> None:
    """Plan 11 of `chaos run`: the file with the mark was synced, the one before it was not, and nothing showed it.
    However much of that is lost; also where the hour changes there, or the clock goes back into the one before."""
    logs.lead(1, 1, 0, until_ms, before=None, marked_ms=marked_ms)
    path = logs.paths[1] / delivery_files(logs.paths[1], Disk())[-2].name
    path.write_bytes(path.read_bytes()[:-lost])
    assert any(from_ms <= NOW_MS + until_ms < end_ms for from_ms, end_ms in logs.found()[0].holes)


def test_a_hole_ends_at_the_latest_where_another_node_begins_a_later_marked_term(logs: Logs) -> None:
    """Zeros at the end of a log have nothing behind them that could end the hole."""
    logs.lead(1, 1, 0, 500, before=0)
    logs.lead(1, 2, 600, 700, before=1)
    logs.lead(2, 3, 900, 2_000, before=2)
    holes = np.array([(1, 0, 0, NOW_MS + 500, 1 << 60), (2, 0, 0, NOW_MS + 950, NOW_MS + 960)], SPAN)
    assert (closed(holes, logs.terms)["until_ms"] - NOW_MS).tolist() == [900 + CLOCKS_MS, 960]
    logs.lead(1, 5, 2_100, 2_200, before=4)
    logs.lead(3, 4, 2_300, 2_400, before=3)  # before it, by a clock that is ahead
    hole = np.array([(1, 0, 0, NOW_MS + 2_200, 1 << 60)], SPAN)
    assert closed(hole, logs.terms)["until_ms"].tolist() == [1 << 60]
    logs.lead(3, 6, 3_000, 4_000, before=None)
    holes["from_ms"] = NOW_MS + 2_500
    assert closed(holes, logs.terms)["until_ms"].tolist() == holes["until_ms"].tolist()


def gap(from_ms: int, until_ms: int, node: int = 0) -> Rows:
    """One gap around the due time of a life's message."""
    return np.array([(node, 0, 0, T + from_ms, T + until_ms)], SPAN)


@pytest.mark.parametrize("node", [0, 1, 2])
def test_d5_delivered_once_is_said_only_where_no_gap_touches(node: int) -> None:
    """In the quick verdict too: from when it is due, or was made, to its end; whichever node's account has the gap."""
    quick = Life().start(3).settle(DELIVERED, 20)
    retried = Life().made(3).end(9, FAILED).made(12, attempt=2).settle(DELIVERED, 20, attempt=2)
    for life in (quick, retried):
        for from_ms, until_ms, kind in (
            (-900, 0, ONCE), (-900, 1, DOUBTED), (5, 9, DOUBTED), (20, 900, DOUBTED), (21, 900, ONCE)
        ):  # fmt: skip
            judged = life.judged(gaps=gap(from_ms, until_ms, node))
            assert judged.kind == kind, (from_ms, until_ms)
            assert (Flag.RECORDS_MISSING in judged.flags) == (kind == DOUBTED)
    late = Life(created=600).start(700).settle(DELIVERED, 720)
    assert late.judged(gaps=gap(-900, 600)).kind == MessageClass.DELIVERED_ONCE
    pending = Life().judged(gaps=gap(5, 9))
    assert (pending.kind, Flag.RECORDS_MISSING in pending.flags) == (MessageClass.PENDING, True)


def test_d5_the_ledger_of_a_cluster_whose_leader_lost_power_asks_the_terms() -> None:
    """As a whole: the terms make the gap, the gap makes the verdict."""
    terms = np.array([told(5, 1, T - 9_000, T - 500, before=4), told(6, 2, T + 700, T + 900, before=5)], TERM)
    life = Life().start(720, 6, tick=1).settle(DELIVERED, 800, 6)
    gaps = unrecorded(terms, 0)
    assert gaps[["node", "from_ms", "until_ms"]].tolist() == [
        (0, 0, T - 9_000 + CLOCKS_MS),
        (1, T - 500, T + 700 + CLOCKS_MS),
    ]
    assert life.judged(terms=terms, gaps=gaps).kind == MessageClass.DELIVERED


def test_47369_what_was_lost_before_clocks_were_set_back_has_no_end() -> None:
    """The terms behind 5 led an hour ahead, and their accounts went with their disks. The next that is told of has a
    right clock, and had turned the log back; files that went by age are of before. When the lost ones handed over
    nothing tells."""
    ahead_ms = T + HOUR_MS
    terms = np.array([told(5, 1, ahead_ms, ahead_ms + 500, before=4), told(9, 2, T + 700, T + 900, before=8)], TERM)
    terms["ended_ms"][0] = ahead_ms + 500
    _, gap = unrecorded(terms, T + 700)
    assert (int(gap["node"]), int(gap["from_ms"]), int(gap["until_ms"])) == (0, T + 700, EVER_MS)
    *_, gap = unrecorded(terms, 0)
    assert int(gap["from_ms"]) == 0, "nor since when"


def test_a_leader_that_was_once_ahead_leaves_later_gaps_their_ends() -> None:
    """Term 6 was two seconds ahead, is told of, and ended. The right clock of term 7 told nothing of its end."""
    terms = np.array(
        [
            told(6, 1, T, T + 3_200, before=0),
            told(7, 3, T + 1_200, T + 1_250, before=6),
            told(8, 2, T + 1_300, T + 1_900, before=7),
        ],
        TERM,
    )
    terms["ended_ms"][0] = T + 3_200
    (gap,) = unrecorded(terms, 0)
    assert (int(gap["node"]), int(gap["from_ms"]), int(gap["until_ms"])) == (3, T + 1_250, T + 1_300 + CLOCKS_MS)
    terms["before"][2], terms["term"][2] = 8, 9
    (_, gap) = unrecorded(terms, 0)
    assert (int(gap["node"]), int(gap["from_ms"]), int(gap["until_ms"])) == (0, T + 250, T + 1_300 + CLOCKS_MS)


def test_a_gap_without_an_end_goes_with_the_accounts_around_it() -> None:
    """The leader of term 5 was an hour ahead; its last records are lost. All that is kept is later than all of this."""
    terms = np.array([told(5, 1, T, T + HOUR_MS, before=0), told(6, 2, T + 700, T + 900, before=5)], TERM)
    (gap,) = unrecorded(terms, T + HOUR_MS - 1)
    assert int(gap["until_ms"]) == EVER_MS
    assert not len(unrecorded(terms, T + HOUR_MS))
