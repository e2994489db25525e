"""Copies of dead messages: what they are, where they go, and where they stop."""

import numpy as np
import pytest

from replication.apply.message.settle import ACKED
from replication.command.dispatch import DispatchState
from replication.command.schedule import Schedule
from replication.command.topic import PutTopic
from storage.format.message_id import encode_ids
from storage.record.record import Drafts, Record, encode_records
from storage.record.record_rewrite import pack_map
from tests.replication.applied_log import HOUR_MS, T0, Log, fail, placed, schedule


def point(log: Log, topic: str, letter: str) -> None:
    """Give a topic a dead-letter topic."""
    log.apply(PutTopic("default", topic, {"dead_letter": letter}, replace=False))


def units_of(log: Log, topic: str) -> list[int]:
    """The units of a topic in the hours around T0."""
    found = log.store.catalog.topic(topic)
    if found is None:
        return []
    hours = [log.store.pending(T0 // HOUR_MS + hour) for hour in range(3)]
    return [
        int(p) for slot in hours for p, number in zip(slot.position, slot.topic, strict=True) if number == found.number
    ]


def name(record: Record) -> str:
    """The message's id."""
    ids = encode_ids(0, np.array([record.position], np.uint64), np.array([record.random], np.uint64))
    return str(ids[0].decode())


def test_a_dead_message_leaves_a_copy_in_the_topic_its_topic_names(log: Log) -> None:
    """New id, due now; body, tags, headers, content type and priority as they were; key, target and policy not."""
    drafts = Drafts(
        bodies=[b"body"],
        asked_due_ms=np.array([T0]),
        random=np.array([5], np.uint64),
        content_types=[b"text/plain"],
        tags=[(b"red",)],
        headers=[pack_map({"h": "1"})],
        targets=[pack_map({"url": "http://x"})],
        extensions=[pack_map({"retry": {"max_attempts": 3}, "revision": 4})],
    )
    records = encode_records(drafts)
    point(log, "orders", "graves")
    command = Schedule(
        ("orders",), np.array([T0]), records.size, records.blob, np.zeros(1, np.uint16), np.array([6], np.uint64)
    )
    (home,) = placed(log.apply(command))
    log.apply(fail((home, 1, 1), due_ms=T0 + 10, texts=(b"earlier",)))
    applied = log.apply(fail((log.place(home), 1, 2), dead=True, code=503, random=99), now_ms=T0 + 777)
    assert applied.results[0].tolist() == [ACKED]
    (copy,) = units_of(log, "graves")
    record = log.record(copy)
    unit = log.store.units(np.array([copy], np.uint64))[0]
    assert (record.position, record.random, record.created_ms, record.asked_due_ms) == (copy, 99, T0 + 777, T0 + 777)
    assert (record.body, record.tags, record.headers, record.content_type) == (
        b"body",
        ("red",),
        {"h": "1"},
        "text/plain",
    )
    assert (record.key, record.target, int(unit["tags"]), int(unit["flags"]), int(unit["attempt"])) == (
        b"",
        b"",
        6,
        0,
        0,
    )
    assert record.extension == {
        "dead": {"id": name(log.record(home)), "topic": "orders", "reason": 503, "attempts": 2, "error": "earlier"}
    }


def test_without_a_dead_letter_topic_there_is_no_copy(log: Log) -> None:
    """The message is dead and that is all."""
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(fail((home, 1, 1), dead=True))
    assert log.store.unit_count == 1


def test_several_topics_in_one_command(log: Log) -> None:
    """Each message goes where its own topic says, in the order of rows; one whose topic names none leaves no copy."""
    for topic, letter in (("a", "x"), ("b", "y")):
        point(log, topic, letter)
    homes = [placed(log.apply(schedule(T0, topic=topic)))[0] for topic in ("b", "plain", "a", "b")]
    log.apply(fail(*((home, 1, 1) for home in homes), dead=True, random=30), now_ms=T0 + 5)
    assert [log.record(copy).random for copy in units_of(log, "y")] == [30, 33]
    assert [log.record(copy).random for copy in units_of(log, "x")] == [32]


def test_the_copy_is_clamped_to_the_slot_of_the_state(log: Log) -> None:
    """A leader's stamp may lie before the replicated tick."""
    point(log, "orders", "graves")
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(DispatchState(T0 // 1000 + 8, 0, 1), fail((home, 1, 1), dead=True))
    (copy,) = units_of(log, "graves")
    assert int(log.store.units(np.array([copy], np.uint64))["due_ms"][0]) == T0 + 8_000


@pytest.mark.parametrize(
    ("letters", "passed"),
    [
        ({"orders": "orders"}, []),
        ({"orders": "graves", "graves": "graves"}, ["graves"]),
        ({"orders": "graves", "graves": "orders"}, ["graves"]),
        ({"orders": "b", "b": "c", "c": "b"}, ["b", "c"]),
        ({"orders": "t0"} | {f"t{n}": f"t{n + 1}" for n in range(20)}, [f"t{n}" for n in range(8)]),
    ],
    ids=["itself", "the-copy-itself", "back", "ring", "far"],
)
def test_no_copy_goes_round(log: Log, letters: dict[str, str], passed: list[str]) -> None:
    """A copy that dies is copied on, but never to a topic it died in, and not for ever."""
    for topic, letter in letters.items():
        point(log, topic, letter)
    (message,) = placed(log.apply(schedule(T0)))
    went: list[str] = []
    for _ in range(30):
        count = log.store.unit_count
        log.apply(fail((message, 1, 1), dead=True))
        if log.store.unit_count == count:
            break
        topic = next(topic for topic in letters.values() if units_of(log, topic))
        (message,) = units_of(log, topic)
        went.append(topic)
    assert went == passed
