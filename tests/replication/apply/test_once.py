"""Requests under a key: one effect, one answer, in one entry; what is void is void alone."""

from pathlib import Path
from typing import Any

import pytest

from replication.apply.apply_notifier import Changes
from replication.apply.machine import Applied
from replication.apply.message.message_location import UNKNOWN
from replication.apply.operation import BEGUN
from replication.apply.topic import MISMATCH
from replication.command.entry import Command
from replication.command.once import KeyedRequest, Once
from replication.command.operation import BeginOperation
from replication.command.schedule import Key
from replication.command.topic import DropTopic, PutTopic
from storage.format import states as state
from storage.format.schedule_status import EXTEND, EXTENDED, NEW, REPLACE, REPLACED
from storage.tables.idempotency import KEPT_MS, KeptAnswer
from storage.tables.operation_row import OperationWish
from storage.tables.registry import IDEMPOTENCY
from tests.replication.applied_log import HOUR_MS, T0, Log, ack, cancel, checkpoint, placed, reschedule, schedule
from tests.replication.apply.message.test_supersede import wishes

pytestmark = pytest.mark.usefixtures("newest_level")

SHIFT = BeginOperation(OperationWish(kind="shift", topics=("orders",), by_ms=HOUR_MS), 1)


def request(key: bytes = b"k", call: str = "cancel", note: str = "") -> KeyedRequest:
    """One under this key."""
    return KeyedRequest("default", key, call, b"f" * 16, "anonymous", note)


def once(log: Log, *commands: Command, keys: tuple[bytes, ...] = (b"k",), now_ms: int = T0) -> Applied:
    """An entry of these commands, the first of them keyed."""
    return log.apply(Once({at: request(key) for at, key in enumerate(keys, 1)}), *commands, now_ms=now_ms)


def kept(log: Log, key: bytes = b"k", now_ms: int = T0) -> KeptAnswer | None:
    """The answer under a key."""
    return log.store.catalog.of(IDEMPOTENCY).find("default", key, now_ms)


def test_each_command_keeps_the_numbers_of_its_answer(log: Log) -> None:
    """Of a new message, a move, a cancel, a topic and an operation."""
    (home,) = placed(once(log, schedule(T0 + HOUR_MS), keys=(b"new",)), 1)
    found = kept(log, b"new")
    assert found is not None
    assert (found.values[0], found.values[2:]) == (home, (T0 + HOUR_MS, NEW))
    once(log, reschedule((home, T0 + 2 * HOUR_MS)), keys=(b"move",))
    once(log, cancel(home), keys=(b"cancel",))
    once(log, PutTopic("default", "new", {}, replace=True), keys=(b"put",))
    drop = DropTopic("default", "new", log.index + 1, log.store.unit_count)
    once(log, drop, keys=(b"drop",))
    begun = once(log, SHIFT, keys=(b"shift",)).results[1]
    values = {key: row.values if (row := kept(log, key)) else None for key in (b"move", b"cancel", b"put", b"drop")}
    assert values == {b"move": (T0 + 2 * HOUR_MS, 2), b"cancel": (0, 0), b"put": (), b"drop": ()}
    assert begun.result == BEGUN
    assert kept(log, b"shift") == KeptAnswer(T0, log.index, 1, "cancel", b"f" * 16, "anonymous", (begun.value,), "")


def test_a_repeat_is_void_alone(log: Log) -> None:
    """The other commands of its entry have their effect, and whoever listens hears of those only."""
    (first,) = placed(once(log, schedule(T0 + HOUR_MS)), 1)
    heard: list[Changes] = []
    log.machine.told.on_applied = heard.append
    done = log.apply(Once({1: request()}), schedule(T0 + HOUR_MS), schedule(T0 + HOUR_MS, topic="bills"))
    assert isinstance(done.results[1], KeptAnswer)
    assert done.results[1].values[0] == first
    (second,) = placed(done, 2)
    assert (log.state(first), log.state(second)) == (state.PENDING, state.PENDING)
    assert log.store.unit_count == 2
    (changes,) = heard
    assert [result is None for result in changes.results] == [True, True, False]


def test_of_two_in_one_entry_the_first_counts(log: Log) -> None:
    """The second is void."""
    done = log.apply(Once({1: request(), 2: request()}), schedule(T0 + HOUR_MS), schedule(T0 + HOUR_MS))
    assert isinstance(done.results[2], KeptAnswer)
    assert log.store.unit_count == 1


def test_replaces_of_one_key_in_sections_of_their_own(log: Log) -> None:
    """The leader names the holder as of the entry's begin in each. All have their effect, in their order: joined ones
    first, then those under keys. Otherwise a keyed one would wait for as long as others come."""
    (holder,) = placed(log.apply(schedule(T0 + HOUR_MS, keys=(Key(0, b"k", b"f" * 16, 0),))))
    one = wishes(REPLACE, T0 + HOUR_MS, holder=holder)
    done = log.apply(Once({2: request(b"a"), 3: request(b"b")}), one, one, wishes(EXTEND, T0 + 5, holder=holder))
    replaced, again, extended = done.results[1:]
    assert [each.status.tolist() for each in (replaced, again, extended)] == [[REPLACED], [REPLACED], [EXTENDED]]
    assert (replaced.previous[0], again.previous[0], extended.previous[0]) == (
        holder, replaced.position[0], again.position[0],
    )  # fmt: skip
    assert log.state(int(again.position[0])) != state.CANCELLED
    assert {log.state(holder), log.state(int(replaced.position[0]))} == {state.CANCELLED}


def test_a_refusal_keeps_nothing(log: Log) -> None:
    """An unknown message, another revision of a topic: the key is free."""
    assert once(log, cancel(5)).results[1].result.tolist() == [UNKNOWN]
    once(log, PutTopic("default", "new", {}, replace=True, revision=7))
    assert kept(log) is None
    log.apply(PutTopic("default", "new", {}, replace=True))
    drop = DropTopic("default", "new", log.index + 1, log.store.unit_count, revision=9)
    assert once(log, drop).results[1] == MISMATCH
    assert kept(log) is None


def test_after_a_day_the_key_is_free(log: Log) -> None:
    """By the stamps of entries. The row goes with the next entry that has a key."""
    once(log, schedule(T0 + HOUR_MS))
    assert isinstance(once(log, schedule(T0 + HOUR_MS), now_ms=T0 + KEPT_MS - 1).results[1], KeptAnswer)
    assert not isinstance(once(log, schedule(T0 + 2 * KEPT_MS), now_ms=T0 + KEPT_MS).results[1], KeptAnswer)
    found = kept(log, now_ms=T0 + KEPT_MS)
    assert found is not None
    assert found.at_ms == T0 + KEPT_MS
    assert log.store.catalog.of(IDEMPOTENCY).oldest_ms() == T0 + KEPT_MS


def test_effect_and_answer_survive_together(log: Log, tmp_path: Path) -> None:
    """Whatever of the log is in a checkpoint and whatever is replayed: both are there, or neither."""
    (home,) = placed(once(log, schedule(T0 + HOUR_MS), keys=(b"new",)), 1)
    checkpoint(log)
    once(log, cancel(home), keys=(b"cancel",))
    log.store.close()
    again = Log(tmp_path / "n1")
    log.store, log.machine = again.store, again.machine
    assert kept(log, b"new") is not None
    assert (log.state(home), kept(log, b"cancel")) == (state.PENDING, None)
    log.machine.apply(*log.entries[-1])
    assert (log.state(home), kept(log, b"cancel") is not None) == (state.CANCELLED, True)


@pytest.mark.parametrize(
    ("command", "numbers"),
    [
        (cancel(1), (0,)),
        (cancel(1), (2,)),
        (cancel(1, 2), (1,)),
        (ack((1, 1, 1)), (1,)),
        (schedule(T0, T0), (1,)),
    ],
)
def test_keys_where_none_may_be(log: Log, command: Any, numbers: tuple[int, ...]) -> None:
    """Of the Once itself, of no section, of several rows, of a command that takes none: the entry is refused."""
    done = log.apply(Once({number: request() for number in numbers}), command)
    assert done.refused is not None
    assert "a key of section" in done.refused
    assert kept(log) is None
