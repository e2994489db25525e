"""The node's account of its hand-overs: who, when, where the wheel stood, and what came of it."""

from pathlib import Path

import numpy as np

from node.handover.delivery_log import DELIVERED, HANDED_ON, PULL, PUSH, DeliveryLog
from replication.command.dispatch import DispatchState
from storage.file.delivery_file import delivery_files, read_delivery_file
from storage.file.disk import Disk
from storage.record.delivery_record import END, START, TERM_BEGUN, TERM_ENDED

NOW_MS = 1_790_000_000_000


def test_start_and_end_carry_the_same_hand_over_and_the_state_of_their_moment(tmp_path: Path) -> None:
    """And the node that made it."""
    state = DispatchState(100, 3, 9)
    log = DeliveryLog(tmp_path, Disk(), group=0, node=2, cluster_id=lambda: bytes(16), state=lambda: state)
    home, random = np.array([5, 6], np.uint64), np.array([1, 2], np.uint64)
    attempt = np.array([1, 4], np.uint16)
    due_ms = np.array([NOW_MS - 7, NOW_MS], np.int64)
    log.start(home=home, random=random, attempt=attempt, asked_due_ms=due_ms, topic=8, term=3, at_ms=NOW_MS, mode=PUSH)
    state = DispatchState(101, 0, 10)
    log.end(
        home=home, random=random, attempt=attempt, term=3, topic=8, at_ms=NOW_MS + 40, mode=PUSH,
        outcome=DELIVERED, code=200, took_ms=40,
    )  # fmt: skip
    log.close()
    (file,) = delivery_files(tmp_path, Disk())
    ((rows, unwritten),) = read_delivery_file(tmp_path / file.name, Disk())
    assert unwritten == 0
    assert rows["kind"].tolist() == [START, START, END, END]
    assert rows["home"].tolist() == [5, 6, 5, 6]
    assert rows["attempt"].tolist() == [1, 4, 1, 4]
    assert set(rows["node"].tolist()) == {2}
    assert rows["tick"].tolist() == [100, 100, 101, 101]
    assert rows["asked_due_ms"].tolist()[:2] == due_ms.tolist()
    assert (rows["outcome"].tolist(), rows["code"].tolist()) == ([0, 0, 1, 1], [0, 0, 200, 200])


def test_nothing_handed_over_writes_nothing_and_needs_no_cluster(tmp_path: Path) -> None:
    """A node that never leads has no delivery log."""
    log = DeliveryLog(tmp_path, Disk(), group=0, node=1, cluster_id=lambda: None, state=lambda: DispatchState(0, 0, 0))
    none = np.empty(0, np.uint64)
    log.start(
        home=none, random=none, attempt=np.empty(0, np.uint16), asked_due_ms=np.empty(0, np.int64), topic=1, term=1,
        at_ms=NOW_MS, mode=PULL,
    )  # fmt: skip
    assert log.remove_before(NOW_MS, now_ms=NOW_MS) == 0
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_the_beginning_and_the_end_of_a_term_stand_around_its_hand_overs(tmp_path: Path) -> None:
    """With the dispatch state that the new leader found, when it was, and how it ended; they name no message."""
    state = DispatchState(100, 3, 9)
    log = DeliveryLog(tmp_path, Disk(), group=0, node=2, cluster_id=lambda: bytes(16), state=lambda: state)
    log.term_begun(6, NOW_MS - 1)  # killed: without an end
    log.term_begun(7, NOW_MS)
    state = DispatchState(140, 0, 12)
    log.term_ended(7, NOW_MS + 40_000, HANDED_ON)
    log.term_begun(9, NOW_MS + 50_000)
    log.close()
    _, file, _ = delivery_files(tmp_path, Disk())  # a term's records are the first and the last of a file
    ((rows, _),) = read_delivery_file(tmp_path / file.name, Disk())
    assert rows["kind"].tolist() == [TERM_BEGUN, TERM_ENDED]
    assert rows["at_ms"].tolist() == [NOW_MS, NOW_MS + 40_000]
    assert (rows["term"].tolist(), rows["node"].tolist()) == ([7, 7], [2, 2])
    assert (rows["tick"].tolist(), rows["local_index"].tolist()) == ([100, 140], [3, 0])
    assert rows["code"].tolist() == [0, HANDED_ON]
    assert not rows[["home", "random", "topic", "mode", "outcome"]].astype("u8,u8,u4,u1,u1").view("u1").any()
