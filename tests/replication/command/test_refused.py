"""Commands that fit their section and still cannot be: each is refused whole, by a sentence that says what it is."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.apply.machine import Applied
from replication.command.column import DUE_MS_MAX, pack_columns, pack_map
from replication.command.dispatch import DispatchState, Realign
from replication.command.entry import Command, Kind, Packed, UnknownCommand, encode_entry
from replication.command.genesis import Genesis
from replication.command.schedule import Key, Schedule
from replication.command.topic import PutTopic
from replication.command.unlink import Unlink
from tests.examples import examples
from tests.replication.applied_log import (
    T0,
    Log,
    ack,
    cancel,
    extend,
    fail,
    lease,
    placed,
    redrive,
    reschedule,
    schedule,
)

FINGERPRINT = b"f" * 16


def apply(log: Log, packed: Packed) -> Applied:
    """One entry of one section, as packed."""
    log.index += 1
    return log.machine.apply(log.index, 1, encode_entry(group=0, term=1, node=1, now_ms=T0, sections=[packed]))


def columns(command: Schedule) -> list[bytes]:
    """The columns and records of a Schedule without tags."""
    return [*pack_columns(command.due_ms, command.size, command.topic), bytes(command.blob)]


def schedule_section(**changes: Any) -> Packed:
    """A Schedule of one message whose map says something else."""
    command = schedule(T0)
    value: dict[str, Any] = {
        "namespace": "default", "topics": ["orders"], "tagged": False, "keys": [], "blob": len(command.blob),
    }  # fmt: skip
    return Kind.SCHEDULE, 1, [pack_map(value | changes), *columns(command)]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"topics": [1]}, "topics: str expected, found int"),
        ({"topics": "orders"}, "topics: list expected, found str"),
        ({"topics": []}, "topic 0 of 0"),
        ({"namespace": None}, "namespace: str expected, found NoneType"),
        ({"tagged": 0}, "tagged: bool expected, found int"),
        ({"blob": True}, "blob: int expected, found bool"),
        ({"blob": -8}, "-8 bytes"),
        ({"keys": {}}, "keys: list expected, found dict"),
        ({"keys": [7]}, "key: list expected, found int"),
        ({"keys": [[0, b"k", FINGERPRINT]]}, "a key of 3 fields"),
        ({"keys": [["0", b"k", FINGERPRINT, 0]]}, "key's row: int expected, found str"),
        ({"keys": [[False, b"k", FINGERPRINT, 0]]}, "key's row: int expected, found bool"),
        ({"keys": [[1, b"k", FINGERPRINT, 0]]}, "row 1 of 1"),
        ({"keys": [[-1, b"k", FINGERPRINT, 0]]}, "row -1 of 1"),
        ({"keys": [[0, "k", FINGERPRINT, 0]]}, "key: bytes expected, found str"),
        ({"keys": [[0, b"", FINGERPRINT, 0]]}, "a key of 0 bytes"),
        ({"keys": [[0, b"k" * 256, FINGERPRINT, 0]]}, "a key of 256 bytes"),
        ({"keys": [[0, b"k", b"f", 0]]}, "a fingerprint of 1 bytes"),
        ({"keys": [[0, b"k", FINGERPRINT, 4]]}, "rule 4 of 4"),
        ({"keys": [[0, b"k", FINGERPRINT, 2]]}, "a key that changes its holder"),
        ({"keys": [[0, b"k", FINGERPRINT, 0], [0, b"l", FINGERPRINT, 0]]}, "two keys for one row"),
    ],
)
def test_a_schedule_whose_map_is_not_as_it_should_be(log: Log, changes: dict[str, Any], sentence: str) -> None:
    """Types inside topics and keys are checked like everything else; nothing of the entry is applied."""
    refused = apply(log, schedule_section(**changes)).refused
    assert refused is not None
    assert sentence in refused
    assert log.store.unit_count == 0
    assert log.store.catalog.topics() == []


def broken_record(word: int, bits: int) -> Schedule:
    """A Schedule whose record differs in some bits of its first words."""
    command = schedule(T0)
    words = np.frombuffer(command.blob, np.uint64).copy()
    words[word] ^= np.uint64(bits)
    return replace(command, blob=words.tobytes())


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (broken_record(0, 8), "record 0 begins with"),  # another size than its row says
        (broken_record(0, 1 << 48), "record 0 begins with"),  # flagged as moved
        (broken_record(0, 3 << 32), "record 0 begins with"),  # another version
        (replace(schedule(T0), size=np.array([8], np.uint32), blob=bytes(8)), "a record of 8 bytes"),
        (schedule(DUE_MS_MAX + 1), f"due at {DUE_MS_MAX + 1} ms"),
        (fail((1, 1, 1), due_ms=DUE_MS_MAX + 1), f"due at {DUE_MS_MAX + 1} ms"),
        (reschedule((1, DUE_MS_MAX + 1)), f"due at {DUE_MS_MAX + 1} ms"),
        (redrive(1, due_ms=DUE_MS_MAX + 1), f"due at {DUE_MS_MAX + 1} ms"),
        (replace(fail((1, 1, 1)), fate=np.array([4], np.uint8)), "fates [4]"),
        (fail((1, 1, 1), (2, 1, 1), texts=(b"one",)), "1 texts for 2 rows"),
        (replace(ack((1, 1, 1)), subscription=1 << 16), "subscription 65536"),
        (DispatchState(-1, 0, 0), "tick -1"),
        (DispatchState(1, -2, 0), "tick 1 with -2 and 0"),
        (Realign(1, 0, -1), "tick 1 with 0 and -1"),
        (Realign(DUE_MS_MAX, 0, 0), f"tick {DUE_MS_MAX}"),
        (Unlink(np.array([-1], np.int64)), "hours [-1]"),
        (PutTopic("default", "a", {"x": b"bytes"}, replace=True), "settings: bytes found"),
        (PutTopic("default", "a", {"x": {1: 2}}, replace=True), "settings: dict found"),
        (PutTopic("default", "a", {"x": msgpack.Timestamp(1)}, replace=True), "settings: Timestamp found"),
        (PutTopic("default", "a", {"x": [[[[[[[[[]]]]]]]]]}, replace=True), "more than 8 levels"),
        (Genesis(b"c" * 16, b"s", ("n1", 2), 0, 0), "nodes: str expected, found int"),  # type: ignore[arg-type]
        (Genesis(b"c", b"s", ("n1",), 0, 0), "cluster_id of 1 bytes"),
    ],
)  # fmt: skip
def test_what_no_leader_of_ours_would_say_is_refused(log: Log, command: Command, sentence: str) -> None:
    """Every node gives the same sentence, changes nothing, and goes on with the next entry."""
    refused = apply(log, command.pack()).refused
    assert refused is not None
    assert sentence in refused
    assert log.store.unit_count == 0
    assert len(placed(log.apply(schedule(T0)))) == 1


def test_texts_of_a_fail_are_bytes_of_a_kilobyte_at_most(log: Log) -> None:
    """`pack` cuts; what was not cut by it is refused."""
    kind, rows, (_, *rest) = fail((1, 1, 1)).pack()
    for texts in (["text"], [b"x" * 1025], "text"):
        section = (kind, rows, [pack_map({"subscription": 0, "texts": texts}), *rest])
        assert apply(log, section).refused is not None
    assert apply(log, fail((1, 1, 1), texts=(b"x" * 5_000,)).pack()).refused is None


def test_a_stamp_beyond_time_is_refused(log: Log) -> None:
    """Copies of dead messages are due at the stamp: it has to be in an hour that can be."""
    assert "stamp" in (log.apply(schedule(T0), now_ms=DUE_MS_MAX + 1).refused or "")


EVERYTHING: list[Callable[[int], Command]] = [
    lambda home: DispatchState(T0 // 1000 + 1, 0, 1),
    lambda home: lease(home, home + 1),
    lambda home: ack((home, 1, 1)),
    lambda home: fail((home, 1, 1), (home + 1, 1, 1), texts=(b"no", b"no")),
    lambda home: extend((home + 2, 1, 1, T0 + 9)),
    lambda home: cancel(home + 1, revision=1),
    lambda home: reschedule((home + 2, T0 + 9_000)),
    lambda home: redrive(home + 3),
    lambda home: PutTopic("default", "orders", {"target": {"url": "u"}, "dead_letter": "graves"}, replace=False),
    lambda home: schedule(T0, T0 + 1, keys=(Key(0, b"k", FINGERPRINT, 0),)),
    lambda home: Unlink(np.array([T0 // 3_600_000], np.int64)),
]


@examples(300)
@given(st.integers(0, 10**6), st.integers(0, 255))
def test_no_byte_of_an_entry_can_crash_the_machine(log: Log, at: int, value: int) -> None:
    """Whatever one byte becomes, the entry is applied, refused, or stops the node as a command of a newer build."""
    home = placed(log.apply(schedule(T0, T0, T0, T0)))[0]
    log.apply(fail((home + 3, 1, 1), dead=True))
    sections = [make(home).pack() for make in EVERYTHING]
    entry = bytearray(encode_entry(group=0, term=1, node=1, now_ms=T0, sections=sections))
    entry[at % len(entry)] = value
    try:
        log.index += 1
        assert log.machine.apply(log.index, 1, bytes(entry)).index == log.index
    except UnknownCommand:
        log.index -= 1
