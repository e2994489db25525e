"""The machine on a real store in a temporary directory: what entries do to units, and that all nodes do the same."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.apply.message.cancel import CANCELLED
from replication.apply.message.message_location import LEASED, SETTLED, UNKNOWN
from replication.apply.message.running_sets import DOUBTFUL, KNOWN, NONE
from replication.apply.message.settle import ACKED, INVALID, STALE
from replication.command.dispatch import DispatchState, Realign
from replication.command.entry import encode_entry
from replication.command.topic import PutTopic
from replication.command.unlink import Unlink
from storage.format.schedule_status import CONFLICT, KEPT, NEW, REPLAYED
from tests.examples import examples
from tests.replication.applied_log import (
    GENESIS,
    HOUR_MS,
    T0,
    Log,
    ack,
    cancel,
    checkpoint,
    files,
    key,
    lease,
    placed,
    reschedule,
    schedule,
)


def test_scheduled_messages_stand_where_their_due_time_says(log: Log) -> None:
    """Positions are the due hour and the ordinal in it, over batches and hours."""
    first = placed(log.apply(schedule(T0 + 5, T0 + HOUR_MS, T0 + 6)))
    second = placed(log.apply(schedule(T0 + 1)))
    hour = T0 // HOUR_MS
    assert [p >> 40 for p in first + second] == [hour, hour + 1, hour, hour]
    assert [p & (1 << 40) - 1 for p in first + second] == [0, 0, 1, 2]


def test_a_unit_too_late_for_its_slot_goes_to_the_slot_of_the_state(log: Log) -> None:
    """Clamp: due becomes the start of the state's slot, the asked due stays in the record; in one entry the state
    takes effect first."""
    applied = log.apply(schedule(T0 + 100, T0 + 9_500), DispatchState(T0 // 1000 + 9, 4, 1))
    assert applied.results[1].due_ms.tolist() == [T0 + 9_000, T0 + 9_500]
    record = log.store.records(np.array(placed(applied, 1), np.uint64))[0]
    assert record.asked_due_ms == T0 + 100


def test_an_entry_of_another_group_is_refused(log: Log) -> None:
    """On every node alike; the log goes on."""
    state = DispatchState(1000, 5, 2)
    entry = encode_entry(group=1, term=1, node=1, now_ms=T0, sections=[state.pack()])
    applied = log.machine.apply(log.machine.applied_index + 1, 1, entry)
    assert (applied.results, applied.refused) == ((), "an entry of group 1 in the log of group 0")
    assert log.machine.tick == 0


def test_the_state_never_goes_back_but_by_realign(log: Log) -> None:
    """A state that goes backwards is a no-op; Realign sets it either way."""
    log.apply(DispatchState(1000, 5, 2))
    log.apply(DispatchState(1000, 4, 3))
    log.apply(DispatchState(999, 9, 3))
    assert (log.machine.tick, log.machine.local_index) == (1000, 5)
    log.apply(Realign(900, 900_000, 4))
    assert (log.machine.tick, log.machine.local_index, log.machine.dispatched.now_ms) == (900, 0, 900_000)


def test_what_a_dispatcher_of_another_term_decided_is_void(log: Log) -> None:
    """Lease, DispatchState and Realign of an entry that a later term completed change nothing; the rest counts."""
    (position,) = placed(log.apply(schedule(T0)))
    applied = log.apply(lease(position), DispatchState(T0 // 1000, 1, 1), schedule(T0 + 1), term=1, entry_term=2)
    assert log.state(position) == 0
    assert log.machine.tick == 0
    assert applied.results[2].status.tolist() == [NEW]


def test_ack_settles_once_and_answers_acked_again_to_the_same_receipt(log: Log) -> None:
    """The receipt that settled answers acked again, an older or other one stale, an unknown unit invalid."""
    (position,) = placed(log.apply(schedule(T0)))
    log.apply(lease(position))
    log.apply(lease(position, attempt=2, end_ms=T0 + 60_000))
    results = log.apply(ack((position, 1, 1), (position, 1, 2), (position, 1, 2), (position, 1, 3), (99, 1, 1)))
    assert results.results[0].tolist() == [STALE, ACKED, ACKED, STALE, INVALID]
    assert log.apply(ack((position, 1, 2))).results[0].tolist() == [ACKED]
    assert log.store.unsettled(T0 // HOUR_MS) == 0


def test_a_receipt_whose_lease_the_log_never_saw_settles(log: Log) -> None:
    """The dead leader's last hand-over counts, unless somebody newer holds the unit."""
    one, two = placed(log.apply(schedule(T0, T0)))
    log.apply(lease(two), term=3)
    assert log.apply(ack((one, 2, 1), (two, 2, 1)), term=3).results[0].tolist() == [ACKED, STALE]


def test_a_lease_of_a_settled_unit_or_not_newer_is_a_no_op(log: Log) -> None:
    """Leases take effect only on unsettled units, in rising (term, attempt)."""
    one, two = placed(log.apply(schedule(T0, T0)))
    log.apply(cancel(one))
    assert log.apply(lease(one, two)).results[0].tolist() == [0, 1]
    assert log.apply(lease(two)).results[0].tolist() == [0]
    assert log.apply(lease(two, two, attempt=2)).results[0].tolist() == [1, 0]


def test_cancel_tells_the_truth(log: Log) -> None:
    """Pending is cancelled (twice the same answer), leased refused while the lease runs, settled refused."""
    a, b, c, d = placed(log.apply(schedule(T0, T0, T0, T0)))
    log.apply(lease(b, c))
    log.apply(ack((c, 1, 1)))
    result = log.apply(cancel(a, b, c, 12345)).results[0]
    assert result.result.tolist() == [CANCELLED, LEASED, SETTLED, UNKNOWN]
    assert log.apply(cancel(a)).results[0].result.tolist() == [CANCELLED]
    late = log.apply(cancel(b), now_ms=T0 + 30_001).results[0]
    assert (late.result.tolist(), late.attempts.tolist(), late.prior.tolist()) == ([CANCELLED], [1], [KNOWN])
    doubtful = log.apply(cancel(d, doubtful=True)).results[0]
    assert doubtful.prior.tolist() == [DOUBTFUL]
    again = log.apply(cancel(d, a)).results[0]
    assert again.prior.tolist() == [DOUBTFUL, NONE]


def test_leases_of_an_entry_come_before_its_cancels(log: Log) -> None:
    """A hand-over whose Lease rides in the cancel's own entry is seen by the cancel."""
    (position,) = placed(log.apply(schedule(T0)))
    assert log.apply(cancel(position), lease(position)).results[1].result.tolist() == [LEASED]


def test_keys_make_a_second_sending_harmless(log: Log) -> None:
    """Same key and request: the first answer again. Another request: conflict, or the holder kept, by its rule."""
    first = log.apply(schedule(T0 + 5, keys=(key(0, b"a"),))).results[0]
    again = log.apply(schedule(T0 + 9, keys=(key(0, b"a"),))).results[0]
    assert again.status.tolist() == [REPLAYED]
    for column in ("position", "random", "due_ms"):
        assert getattr(again, column).tolist() == getattr(first, column).tolist()
    other = log.apply(schedule(T0, T0, keys=(key(0, b"b", 0), key(1, b"c", 1)))).results[0]
    assert other.status.tolist() == [CONFLICT, KEPT]
    assert other.position.tolist() == first.position.tolist() * 2
    assert log.store.unit_count == 1
    assert log.apply(schedule(T0, topic="other", keys=(key(0, b"b"),))).results[0].status.tolist() == [NEW]


def test_a_keys_holder_is_due_when_it_is_due_by_now(log: Log) -> None:
    """FOUND D13: a conflict and a kept line said when it was due before a PATCH. The replay of a request says what that
    was answered."""
    (home,) = placed(log.apply(schedule(T0 + 5, keys=(key(0, b"a"),))))
    log.apply(reschedule((home, T0 + 900)))
    keys = (key(0, b"b", 0), key(1, b"c", 1), key(2, b"a"))
    other = log.apply(schedule(T0, T0, T0 + 5, keys=keys)).results[0]
    assert (other.status.tolist(), other.due_ms.tolist()) == ([CONFLICT, KEPT, REPLAYED], [T0 + 900, T0 + 900, T0 + 5])


def test_the_same_key_twice_in_one_entry(log: Log) -> None:
    """The first row takes it, the second is judged against the first, and rows without keys go between them."""
    result = log.apply(schedule(T0, T0 + 1, T0 + 2, keys=(key(0, b"a"), key(2, b"a")))).results[0]
    assert result.status.tolist() == [NEW, NEW, REPLAYED]
    assert result.position[2] == result.position[0]
    assert result.due_ms[2] == T0
    assert log.store.unit_count == 2


def test_a_key_is_free_again_after_its_retention(log: Log) -> None:
    """Until `key_retention_ms` past settling the key is taken, then another request may have it."""
    (position,) = placed(log.apply(schedule(T0, keys=(key(0, b"a"),))))
    log.apply(cancel(position), now_ms=T0)
    taken = log.apply(schedule(T0, keys=(key(0, b"b"),)), now_ms=T0 + 60_000).results[0]
    assert taken.status.tolist() == [CONFLICT]
    free = log.apply(schedule(T0, keys=(key(0, b"b"),)), now_ms=T0 + 60_001).results[0]
    assert free.status.tolist() == [NEW]


def test_topics_are_created_by_use_and_changed_by_revision(log: Log) -> None:
    """A topic that nobody configured has defaults; a PutTopic against another revision changes nothing."""
    log.apply(schedule(T0))
    topic = log.store.catalog.topic("orders")
    assert topic is not None
    assert topic.settings == {}
    put = log.apply(PutTopic("default", "orders", {"paused": True}, replace=False, revision=topic.revision)).results[0]
    assert put.changed
    assert put.topic.settings == {"paused": True}
    stale = log.apply(PutTopic("default", "orders", {"paused": False}, replace=True, revision=topic.revision)).results[
        0
    ]
    assert not stale.changed
    merged = log.apply(PutTopic("default", "orders", {"lease_ms": 5}, replace=False)).results[0]
    assert merged.topic.settings == {"paused": True, "lease_ms": 5}
    replaced = log.apply(PutTopic("default", "orders", {"lease_ms": 6, "target": None}, replace=True)).results[0]
    assert replaced.topic.settings == {"lease_ms": 6}


def test_a_change_of_a_topic_merges_maps_by_field_and_none_takes_away(log: Log) -> None:
    """One level deep: what is inside a field of the target is set as a whole. No None is ever kept."""
    steps: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (
            {"target": {"url": "u", "headers": {"a": "1"}, "method": None}, "lease_ms": None},
            {"target": {"url": "u", "headers": {"a": "1"}}},
        ),
        (
            {"target": {"timeout_ms": 5}, "paused": True},
            {"target": {"url": "u", "headers": {"a": "1"}, "timeout_ms": 5}},
        ),
        ({"target": {"headers": {"b": "2"}, "timeout_ms": None}}, {"target": {"url": "u", "headers": {"b": "2"}}}),
        ({"target": None}, {}),
    ]
    paused: dict[str, Any] = {}
    for change, expected in steps:
        put = log.apply(PutTopic("default", "orders", change, replace=False)).results[0]
        paused |= {"paused": True} if "paused" in change else {}
        assert put.topic.settings == expected | paused


def test_an_hour_is_unlinked_only_when_it_is_over(log: Log) -> None:
    """The tick has passed it, all is settled, and the last settle is past retention: each alone is not enough."""
    (position,) = placed(log.apply(schedule(T0)))
    hour = np.array([T0 // HOUR_MS], np.int64)
    late_ms = T0 + 2 * HOUR_MS
    assert log.apply(Unlink(hour), now_ms=late_ms).results[0] == 0
    log.apply(DispatchState((T0 + HOUR_MS) // 1000, 0, 1))
    assert log.apply(Unlink(hour), now_ms=late_ms).results[0] == 0
    log.apply(cancel(position), now_ms=late_ms)
    assert log.apply(Unlink(hour), now_ms=late_ms + 60_000).results[0] == 0
    assert log.apply(Unlink(hour), now_ms=late_ms + 60_001).results[0] == 1
    assert log.state(position) == 255
    assert log.apply(ack((position, 1, 1)), now_ms=late_ms + 60_002).results[0].tolist() == [INVALID]


@examples(25)
@given(st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_no_position_is_given_twice_however_the_clock_jumps(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[tuple[int, bool, bool]]
) -> None:
    """A leader's clock runs days ahead, hours end and are unlinked, and a Realign sets it back, again and again, with
    checkpoints and restarts in between: each id names one message for ever, and those of unlinked hours none."""
    directory = tmp_path_factory.mktemp("jumps") / "n1"
    directory.mkdir()
    log = Log(directory)
    log.apply(GENESIS)
    hour, given_before = T0 // HOUR_MS, set[int]()
    for count, with_checkpoint, restarted in rounds:
        log.apply(Realign(T0 // 1000, T0, log.index))
        positions = placed(log.apply(schedule(*(T0 + ms for ms in range(count)))))
        assert not given_before & set(positions)
        assert all(log.state(position) == 255 for position in given_before)
        given_before |= set(positions)
        log.apply(cancel(*positions))
        log.apply(DispatchState((T0 + HOUR_MS) // 1000, 0, log.index))
        assert log.apply(Unlink(np.array([hour], np.int64)), now_ms=T0 + 10 * HOUR_MS).results[0] == 1
        if with_checkpoint:
            checkpoint(log)
        if with_checkpoint and restarted:
            log.store.close()
            log = Log(directory)
    log.store.close()


def test_a_broken_entry_is_refused_alike_and_the_machine_goes_on(make: Callable[[str], Log]) -> None:
    """Poison: the same refusal on every node, nothing applied, the next entry works."""
    refusals = []
    for name in ("n1", "n2"):
        log = make(name)
        log.index += 1
        refusals.append(log.machine.apply(log.index, 1, b"\x01\x01" + bytes(40)).refused)
        assert placed(log.apply(schedule(T0)))
    assert refusals[0] == refusals[1]
    assert refusals[0] is not None


FILE_COMMANDS = st.lists(
    st.one_of(
        st.lists(st.integers(-5_000, 2 * HOUR_MS), min_size=1, max_size=20).map(
            lambda offsets: schedule(*(T0 + offset for offset in offsets))
        ),
        st.lists(st.integers(0, 30), min_size=1, max_size=5, unique=True).map(
            lambda gs: lease(*((T0 // HOUR_MS) << 40 | g for g in gs))
        ),
        st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=5).map(
            lambda rows: ack(*((T0 // HOUR_MS << 40 | g, term, attempt) for g, term, attempt in rows))
        ),
        st.lists(st.integers(0, 30), min_size=1, max_size=5).map(
            lambda gs: cancel(*((T0 // HOUR_MS) << 40 | g for g in gs))
        ),
        st.integers(0, 20).map(lambda tick: DispatchState(T0 // 1000 + tick, 0, 1)),
    ),
    max_size=15,
)


def run_and_close(directory: Path, commands: list[Any], turn_at: int, checkpoint_at: int) -> tuple[Any, bytes]:
    """Apply the commands on a new directory, turning the wheel and checkpointing at the given places."""
    directory.mkdir()
    log = Log(directory)
    results = [repr(log.apply(GENESIS).results)]
    for i, command in enumerate(commands):
        if i == turn_at:
            log.store.turn(T0 // HOUR_MS)
        if i == checkpoint_at:
            checkpoint(log)
        results.append(repr(log.apply(command, now_ms=T0 + i).results))
    checkpoint(log)
    log.store.close()
    return results, log.machine.rolling_hash


@examples(40)
@given(FILE_COMMANDS, st.integers(0, 15), st.integers(0, 15))
def test_applied_twice_gives_identical_files(
    tmp_path_factory: pytest.TempPathFactory, commands: list[Any], turn_at: int, checkpoint_at: int
) -> None:
    """Whenever a node wrote, turned its wheel or checkpointed, its files, results and rolling hash are the same."""
    base = tmp_path_factory.mktemp("twice")
    one = run_and_close(base / "a", commands, turn_at, checkpoint_at)
    other = run_and_close(base / "b", commands, 0, 99)
    assert one == other
    assert files(base / "a") == files(base / "b")


def test_restart_from_a_checkpoint_and_replay_gives_the_same(make: Callable[[str], Log], tmp_path: Path) -> None:
    """A machine that is reopened at its checkpoint and fed what came after ends as one that never stopped."""
    whole, cut = make("whole"), make("cut")
    for log in (whole, cut):
        log.apply(schedule(T0 + 5, T0 + HOUR_MS * 3, keys=(key(0, b"a"),)))
    checkpoint(cut)
    for log in (whole, cut):
        log.apply(schedule(T0 + 7, T0 + HOUR_MS * 3))
    cut.store.close()
    again = Log(tmp_path / "cut")
    assert again.machine.applied_index == 2
    again.apply(schedule(T0 + 7, T0 + HOUR_MS * 3))
    assert again.machine.rolling_hash == whole.machine.rolling_hash
    for log in (whole, again):
        checkpoint(log)
    assert files(tmp_path / "whole") == files(tmp_path / "cut")
    again.store.close()


def test_a_checkpoint_does_not_cement_a_difference(make: Callable[[str], Log], tmp_path: Path) -> None:
    """One bit of one entry's effect differs, a checkpoint is made of it, the node starts again: its hash differs at
    every later index, and at that of the checkpoint itself, which it can tell at once."""
    right, wrong = make("right"), make("wrong")
    right.apply(schedule(T0 + 5))
    append = wrong.store.append
    wrong.store.append = lambda batch: append(replace(batch, priority=batch.priority ^ 1))  # type: ignore[method-assign, arg-type]
    wrong.apply(schedule(T0 + 5))
    index = wrong.index
    checkpoint(wrong)
    wrong.store.close()
    again = Log(tmp_path / "wrong")
    assert again.machine.sums.at(index) not in (None, right.machine.sums.at(index))
    for log in (right, again):
        log.apply(schedule(T0 + 9))
    assert again.machine.rolling_hash != right.machine.rolling_hash
    again.store.close()
